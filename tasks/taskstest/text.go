package taskstest

import (
	"fmt"
	"strings"
)

// Text returns a source of the given number of examples, as JSON lines: 19 users write sentences of
// 6 to 12 words out of 97.
func Text(examples int) []byte {
	var b strings.Builder
	for i := range examples {
		words := make([]string, 6+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7+i/11)%97)
		}
		fmt.Fprintf(&b, `{"user":"u%d","text":"%s ."}`+"\n", i*i%37, strings.Join(words, " "))
	}
	return []byte(b.String())
}
