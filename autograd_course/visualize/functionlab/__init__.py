"""Function lab: one Function under the hand, with its curve and the tangent of its backward."""
