// Package contracts communicates with external programs that implement a contract of docs/contracts: its
// rules, the exchange of messages, the checks and the speed of a program.
//
//	talk, err := contracts.Start(command, contracts.Speech{...})
//	...
//	defer talk.Close()
//	err = talk.Ask(ctx, "describe", "describe", nil, func(result json.RawMessage) error { ... })
//
// A conversation consists of requests and answers, one JSON object a line, on the program's standard input
// and output. An answer has the id of its request and a result or an error:
//
//	{"id": 7, "result": ...}
//	{"id": 7, "error": {"message": "out of memory", "retry": true}}
//
// Many requests may be pending, and are answered in any order. Any other output ends the conversation and
// the program, with an error that includes its last lines.
package contracts
