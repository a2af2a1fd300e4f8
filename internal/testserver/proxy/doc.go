// Package proxy provides proxies between processes and their servers, for tests
// of failures of the network or the server.
//
// A Link carries TCP connections to one server, and can cut, stall, slow or
// lose them:
//
//	link := proxy.NewLink(t, redis.Addr())
//	dial(link.Addr())
//	link.Set(proxy.Stalled) // nothing passes for now
//	link.Set(proxy.Open)
//
// A Front forwards HTTP requests to one server, and damages the answers that a
// test selects:
//
//	front := proxy.NewFront(t, s3.Addr())
//	front.Spoil(func(r *http.Request) proxy.Spoiling {
//		if r.Method == http.MethodPut {
//			return proxy.Unanswered // executed, but the client sees a reset
//		}
//		return proxy.None
//	})
package proxy
