"""Records of applications in MongoDB, and several writes of them as one."""
