"""What only many devices together can show: peers, positions, agreement, and how much a count proves.

Pure functions over tidy tables; stops before verdicts: whether a finding rejects is said by the policy.
"""
