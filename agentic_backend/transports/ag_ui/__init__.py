"""The Agent User Interaction Protocol, for front ends that were written for it; see docs/doors.md."""
