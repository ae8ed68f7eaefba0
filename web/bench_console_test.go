package web_test

import (
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// BenchmarkConsoleOpen is the time from asking for a ticket to the screen's first byte, the agent's dial-back over mutual
// TLS included. The peer is websockify, which asks nobody and dials by itself; the limit is its p50 as it was measured
// elsewhere, 6.4 ms.
func BenchmarkConsoleOpen(b *testing.B) {
	b.Run("portal", func(b *testing.B) {
		s := newScreen(b)
		ann := s.signedIn("ann", fleet.RoleAdmin)
		stop := make(chan struct{})
		served := make(chan struct{})
		go func() {
			defer close(served)
			s.host.serveConsoles(b, stop)
		}()
		times(b, func() {
			ws, a := s.open(ann, s.ticket(ann))
			if ws == nil {
				b.Fatal(a)
			}
			firstByte(b, ws)
		})
		close(stop)
		s.ticket(ann) // wakes the claim
		<-served
	})
	b.Run("websockify", func(b *testing.B) {
		path, err := exec.LookPath("websockify")
		if err != nil {
			b.Skip("websockify is not installed (Debian: apt install websockify)")
		}
		screens, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer screens.Close()
		go func() {
			for {
				c, err := screens.Accept()
				if err != nil {
					return
				}
				c.Write([]byte("RFB 003.008\n"))
				defer c.Close()
			}
		}()
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		address := free.Addr().String()
		free.Close()
		cmd := exec.Command(path, address, screens.Addr().String())
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		d := websocket.Dialer{Subprotocols: []string{"binary"}}
		dial := func() (*websocket.Conn, error) { ws, _, err := d.Dial("ws://"+address, nil); return ws, err }
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if ws, err := dial(); err == nil {
				ws.Close()
				break
			} else if time.Now().After(until) {
				b.Fatal(err)
			}
		}
		times(b, func() {
			ws, err := dial()
			if err != nil {
				b.Fatal(err)
			}
			firstByte(b, ws)
		})
	})
}

func firstByte(b *testing.B, ws *websocket.Conn) {
	b.Helper()
	defer ws.Close()
	if _, err := receive(ws, 1); err != nil {
		b.Fatal(err)
	}
}

// times runs do b.N times and reports percentiles.
func times(b *testing.B, do func()) {
	b.Helper()
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		do()
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	ms := func(at float64) float64 { return took[int(at*float64(len(took)-1))].Seconds() * 1000 }
	b.ReportMetric(ms(.5), "p50-ms")
	b.ReportMetric(ms(.99), "p99-ms")
}

// serveConsoles plays the agent: it dials each console back and sends the first bytes of a screen.
func (m *machine) serveConsoles(b *testing.B, stop chan struct{}) {
	for {
		w := m.take(b)
		select {
		case <-stop:
			return
		default:
		}
		go func() {
			ws, err := m.DialConsole(b.Context(), w.Args.PortalURL, w.Args.Console)
			if err != nil {
				b.Error(err)
				return
			}
			defer ws.Close()
			ws.WriteMessage(websocket.BinaryMessage, []byte("RFB 003.008\n"))
			ws.ReadMessage() // until the browser leaves
		}()
		m.seq++
		if _, err := m.Finish(b.Context(), w.ID, wire.Finish{Epoch: w.Epoch, Seq: m.seq, Outcome: wire.Done}); err != nil {
			b.Error(err)
			return
		}
	}
}
