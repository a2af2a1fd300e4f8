// Package contracts speaks with programs of others that keep a contract of docs/contracts: their rules, the
// conversation with such a program, the checks of it, and how fast it is.
//
//	talk, err := contracts.Start(command, contracts.Speech{...})
//	...
//	defer talk.Close()
//	err = talk.Ask(ctx, "describe", "describe", nil, func(result json.RawMessage) error { ... })
//
// A conversation has requests and answers of one JSON object a line, on the program's standard input and
// output. An answer has the id of its request and a result or an error:
//
//	{"id": 7, "result": ...}
//	{"id": 7, "error": {"message": "out of memory", "retry": true}}
//
// Many requests may be under way, and are answered in any order. Anything else that the program prints
// there ends the conversation and the program, with an error that has its last lines.
package contracts
