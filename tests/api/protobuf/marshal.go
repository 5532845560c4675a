// Writes the objects of standard input, one JSON document a line, as Kubernetes' own types marshal them: see README.md.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
)

type message interface{ Marshal() ([]byte, error) }

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	for lines.Scan() {
		var kind struct{ Kind string }
		check(json.Unmarshal(lines.Bytes(), &kind))
		var object message = &v1.Pod{}
		if kind.Kind == "Node" {
			object = &v1.Node{}
		}
		check(json.Unmarshal(lines.Bytes(), object))
		written, err := object.Marshal()
		check(err)
		fmt.Println(hex.EncodeToString(written))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
