package endtoend_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
)

// serveTextsArgument is that by which the test's program scores texts by the contract "score".
const serveTextsArgument = "serve-texts"

// serveTexts scores texts and does not return, if the program was started for it.
func serveTexts() {
	if len(os.Args) < 2 || os.Args[1] != serveTextsArgument {
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			ID     int64       `json:"id"`
			Method string      `json:"method"`
			Pairs  [][2]string `json:"pairs"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		result, err := json.Marshal(textsResult(r.Method, r.Pairs))
		if err != nil {
			panic(err)
		}
		fmt.Printf(`{"id":%d,"result":%s}`+"\n", r.ID, result)
	}
	os.Exit(0)
}

// textsResult is of a model whose probabilities follow from a hash of the text.
func textsResult(method string, pairs [][2]string) any {
	if method == "describe" {
		return map[string]any{"contract": "coalmine/score", "version": 1, "model": "hashes", "deterministic": true, "methods": []string{"loglikelihood"}}
	}
	scores := make([][2]any, len(pairs))
	for i, pair := range pairs {
		h := fnv.New32a()
		fmt.Fprint(h, pair[0], pair[1])
		scores[i] = [2]any{-1 - float64(len(pair[1])) - float64(h.Sum32()%1000)/1000, false}
	}
	return scores
}
