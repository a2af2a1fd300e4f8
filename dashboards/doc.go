// Package dashboards serves runs over HTTP: to programs by a JSON API, with a Client that
// implements control.API, and to users by a page, which is built from folder page and
// embedded.
//
//	server, err := dashboards.NewServer(api, dashboards.Options{Version: "1.2"})
//	listener, err := net.Listen("tcp", "localhost:8080")
//	err = server.Serve(ctx, listener) // until ctx is done
//
//	client, err := dashboards.NewClient("http://localhost:8080", token)
//	status, err := client.Status(ctx, "") // the newest run
//
// Server, Client and the OpenAPI document are made from one table of operations
// (operations.go); docs/api.md lists the routes. Protections against intruders:
//
//   - Outside localhost there is no service without a token, nor without TLS
//     unless Options.Insecure is set.
//   - A request must name this server in its Host header, so that a page whose
//     name was pointed at this address (DNS rebinding) gets nothing.
//   - A browser cannot be made to change anything from a foreign page: unsafe
//     methods pass http.CrossOriginProtection, token or not.
//   - Every body, header and wait has a limit.
//   - Pages run only their own scripts (Content-Security-Policy) and insert
//     all text as text.
package dashboards
