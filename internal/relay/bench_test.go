package relay

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quantix/internal/testkit/goals"
)

// The console's limits: CPU time per MB at most that of websockify, memory per session at most a tenth of websockify's
// 3.4 MB, and 1,000 sessions of 40 KB/s without loss. Each compared program runs in its own process and is measured in
// the same run. Hosts always use TLS. Browsers use it, too, unless a proxy in front of the portal terminates TLS.
var peers = []string{"broker" + hostTLS, "websockify" + hostTLS, "tcp" + hostTLS, "broker" + bothTLS, "websockify" + bothTLS, "tcp" + bothTLS, "broker", "websockify", "tcp"}

// BenchmarkSplice sends screen data from a host to a browser: one operation is 1 MiB in messages of 32 KiB.
func BenchmarkSplice(b *testing.B) {
	cpu := map[string]float64{} // µs of CPU time per MiB
	for _, kind := range peers {
		b.Run(kind, func(b *testing.B) {
			s := startSplicer(b, kind)
			write, read := s.openSession(1)
			message := make([]byte, 32<<10)
			b.SetBytes(1 << 20)
			before := s.cpuTime()
			b.ResetTimer()
			go func() {
				for range b.N * (1 << 20) / len(message) {
					if write(message) != nil {
						return
					}
				}
			}()
			buf := make([]byte, 64<<10)
			for rest := b.N << 20; rest > 0; {
				n, err := read(buf)
				if err != nil {
					b.Fatal(err)
				}
				rest -= n
			}
			b.StopTimer()
			cpu[kind] = float64((s.cpuTime() - before).Microseconds()) / float64(b.N)
			b.ReportMetric(cpu[kind], "cpu-µs/MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
	ours, peer, tcp := cpu["broker"+bothTLS], cpu["websockify"+bothTLS], cpu["tcp"+bothTLS]
	goals.Console.Record(b, ours <= peer, fmt.Sprintf("%.0f µs", ours), fmt.Sprintf("websockify %.0f µs, raw TCP splice %.0f µs", peer, tcp), ours/peer)
}

// BenchmarkSessionMemory measures the memory of an open console that is idle after it has transferred a screen.
func BenchmarkSessionMemory(b *testing.B) {
	for _, kind := range peers {
		b.Run(kind, func(b *testing.B) {
			sessions := 500
			if strings.HasPrefix(kind, "websockify") {
				sessions = 20 // each in its own process
			}
			s := startSplicer(b, kind)
			before := s.memory()
			for i := range sessions {
				write, read := s.openSession(i)
				picture := make([]byte, 256<<10)
				go write(picture)
				for rest := len(picture); rest > 0; {
					n, err := read(picture)
					if err != nil {
						b.Fatal(err)
					}
					rest -= n
				}
			}
			b.ReportMetric(float64(s.memory()-before)/float64(sessions)/1000, "KB/session")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkThousandSessions sends 40 KB/s on each of 1,000 consoles for three seconds and counts lost bytes.
func BenchmarkThousandSessions(b *testing.B) {
	const sessions, rate, seconds, ticks = 1000, 40_000, 3, 10
	for _, kind := range []string{"broker" + hostTLS, "broker" + bothTLS, "tcp"} {
		b.Run(kind, func(b *testing.B) {
			s := startSplicer(b, kind)
			writes := make([]func([]byte) error, sessions)
			var arrived atomic.Int64
			var readers sync.WaitGroup
			for i := range sessions {
				write, read := s.openSession(i)
				writes[i] = write
				readers.Go(func() {
					buf := make([]byte, 8<<10)
					for rest := rate * seconds; rest > 0; {
						n, err := read(buf)
						if err != nil {
							return
						}
						rest -= n
						arrived.Add(int64(n))
					}
				})
			}
			before, start := s.cpuTime(), time.Now()
			for range b.N {
				message := make([]byte, rate/ticks)
				pace := time.NewTicker(time.Second / ticks)
				for range seconds * ticks {
					<-pace.C
					for _, write := range writes {
						if err := write(message); err != nil {
							b.Fatal(err)
						}
					}
				}
				pace.Stop()
				readers.Wait()
				if b.N > 1 {
					break // one run is enough
				}
			}
			took := time.Since(start)
			b.ReportMetric(float64(sessions*rate*seconds)-float64(arrived.Load()), "bytes-lost")
			b.ReportMetric(100*float64(s.cpuTime()-before)/float64(took), "cpu-%")
			b.ReportMetric(float64(took.Milliseconds())-seconds*1000, "ms-late")
			b.ReportMetric(0, "ns/op")
		})
	}
}
