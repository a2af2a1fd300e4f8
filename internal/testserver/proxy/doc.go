// Package proxy is a proxy between processes and the servers that they use, for
// tests of failures of the network or the server.
//
// A Link carries TCP connections to one server, and can cut, stall, slow or
// lose them:
//
//	link := proxy.NewLink(t, redis.Addr())
//	dial(link.Addr())
//	link.Set(proxy.Stalled) // nothing passes for now
//	link.Set(proxy.Open)
//
// A Front carries HTTP requests to one server, and spoils answers of a
// test's choice:
//
//	front := proxy.NewFront(t, s3.Addr())
//	front.Spoil(func(r *http.Request) proxy.Spoiling {
//		if r.Method == http.MethodPut {
//			return proxy.Unanswered // carried out, and yet the client sees a reset
//		}
//		return proxy.None
//	})
package proxy
