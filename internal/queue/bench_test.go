package queue

import (
	"fmt"
	"testing"
)

// BenchmarkStage measures a stage of four messages over two idle workers, from
// the first enqueue to the last report: the price of a barrier between rounds.
func BenchmarkStage(b *testing.B) {
	for name, conn := range map[string]func() *Conn{
		"embedded": func() *Conn { return mustEmbed(b) },
		"redis":    func() *Conn { return mustOpen(b, startRedis(b).URL()) },
	} {
		b.Run(name, func(b *testing.B) {
			conn := conn()
			broker := conn.Broker()
			serve(b, conn, "w1", echo)
			serve(b, conn, "w2", echo)
			enqueue(b, broker, "warm")
			await(b, broker, 1)
			for i := 0; b.Loop(); i++ {
				for j := range 4 {
					enqueue(b, broker, fmt.Sprintf("s%d.%d", i, j))
				}
				await(b, broker, 4)
			}
		})
	}
}
