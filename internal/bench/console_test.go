package bench

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os/exec"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const consoleSamples = 200

const greeting = "RFB 003.008\n"

// BenchmarkConsoleOpen measures the time from the request for a console ticket to the first bytes of the screen. The
// time includes the agent's connection over mutual TLS. The peer is websockify, which checks no permissions and
// connects directly. The limit is websockify's p50 on another machine, 6.4 ms.
func BenchmarkConsoleOpen(b *testing.B) {
	var ours, peer durations
	b.Run("portal", func(b *testing.B) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		agentURL := "https://" + listener.Addr().String()
		r := newPortal(b.Context(), b, durableURL(b, ""), agentURL)
		b.Cleanup(r.pool.Close)
		certs := newHostCerts(b, r.control)
		if err := serveMTLS(listener, certs.authority, r.web.AgentHandler()); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { listener.Close() })
		pages := httptest.NewServer(r.web.Handler())
		b.Cleanup(pages.Close)
		r.addHosts(b, 1)
		seedVMs(b, r, 1)
		keepOnline(b, r)
		stop := r.serveConsoles(b, agentURL, certs)
		defer stop()
		api, vm := r.createAdministrator(b, pages.URL)
		for range b.N {
			ours = openConsoles(b, func() (*websocket.Conn, error) { return api.Console(b.Context(), vm) })
			ours.report(b, "open")
			b.ReportMetric(6.4, "limit-p50-ms")
		}
	})
	b.Run("websockify", func(b *testing.B) {
		dial := startWebsockify(b)
		for range b.N {
			peer = openConsoles(b, dial)
			peer.report(b, "open")
		}
	})
	if len(ours) > 0 && len(peer) > 0 {
		goals.Open.Record(b, milliseconds(ours.percentile(0.5)) <= 6.4, fmt.Sprintf("%.1f ms", milliseconds(ours.percentile(0.5))), fmt.Sprintf("websockify without authorization: %.1f ms", milliseconds(peer.percentile(0.5))), ours.ratioTo(peer))
	}
}

// openConsoles opens consoles one after another, and measures the time until the first bytes of each.
func openConsoles(b *testing.B, dial func() (*websocket.Conn, error)) durations {
	b.Helper()
	var took durations
	for range consoleSamples {
		began := time.Now()
		ws, err := dial()
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := ws.ReadMessage(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		ws.Close()
	}
	return took
}

// createAdministrator returns an API client of the first administrator, and the first VM's ID.
func (r *rig) createAdministrator(b *testing.B, base string) (*client.Client, fleet.VMID) {
	b.Helper()
	if _, _, err := r.control.EnsureAdmin(b.Context(), fleet.SystemActor); err != nil {
		b.Fatal(err)
	}
	users, err := r.control.ListUsers(b.Context(), fleet.SystemActor, fleet.Query{})
	if err != nil {
		b.Fatal(err)
	}
	first := users.Items[0]
	admin := fleet.Actor{UserID: first.ID, Name: first.Name, Role: first.Role}
	token, err := r.control.CreateToken(b.Context(), admin, "bench", 0)
	if err != nil {
		b.Fatal(err)
	}
	vms, err := r.control.ListVMs(b.Context(), admin, fleet.Query{})
	if err != nil {
		b.Fatal(err)
	}
	api, err := client.New(base, token.Secret, nil)
	if err != nil {
		b.Fatal(err)
	}
	return api, vms.Items[0].ID
}

// serveConsoles acts as the first host's agent: it opens the host's end of each console and sends the first bytes of a
// screen.
func (r *rig) serveConsoles(b *testing.B, agentURL string, certs hostCerts) (stop func()) {
	b.Helper()
	shown := wire.Credentials{Certificate: certs.certificateOf(b, r.hosts[0].id), CA: certs.authority.Pool()}
	agent, err := wire.NewClient(agentURL, func() wire.Credentials { return shown })
	if err != nil {
		b.Fatal(err)
	}
	session, err := agent.Hello(b.Context(), wire.Hello{Instance: "bench", Fingerprint: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	seq := session.SeqBase
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			claim, err := agent.Claim(ctx, wire.ClaimRequest{Max: 4})
			if err != nil && ctx.Err() == nil {
				b.Error(err)
				return
			}
			for _, w := range claim.Jobs {
				go showScreen(ctx, b, agent, w)
				seq++
				if _, err := agent.Finish(ctx, w.ID, wire.Finish{Epoch: w.Epoch, Seq: seq, Outcome: wire.Done}); err != nil && ctx.Err() == nil {
					b.Error(err)
				}
			}
		}
	}()
	return func() { cancel(); <-ended; agent.Close() }
}

func showScreen(ctx context.Context, b *testing.B, agent *wire.Client, w wire.Work) {
	ws, err := agent.DialRelay(ctx, w.Args.PortalURL, w.Args.Console)
	if err != nil {
		if ctx.Err() == nil {
			b.Error(err)
		}
		return
	}
	defer ws.Close()
	ws.WriteMessage(websocket.BinaryMessage, []byte(greeting))
	ws.ReadMessage() // returns when the browser disconnects
}

// startWebsockify starts websockify in front of a server that sends the first bytes of a screen.
func startWebsockify(b *testing.B) (dial func() (*websocket.Conn, error)) {
	b.Helper()
	path, err := exec.LookPath("websockify")
	if err != nil {
		b.Fatal("the peer is not installed: quantix doctor bench --install")
	}
	screens, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { screens.Close() })
	go func() {
		for {
			c, err := screens.Accept()
			if err != nil {
				return
			}
			c.Write([]byte(greeting))
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
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	d := websocket.Dialer{Subprotocols: []string{"binary"}}
	dial = func() (*websocket.Conn, error) { ws, _, err := d.Dial("ws://"+address, nil); return ws, err }
	pollUntil(b, "websockify listens", func() bool {
		ws, err := dial()
		if err == nil {
			ws.Close()
		}
		return err == nil
	})
	return dial
}
