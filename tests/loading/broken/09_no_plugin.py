class BlockAll:
    def filter(self, state, pod, node):
        return "never"
