package cli

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// refusingServer starts a PostgreSQL stub that answers each connection with the given error code.
func refusingServer(t *testing.T, code string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			server := pgproto3.NewBackend(c, c)
			if _, err := server.ReceiveStartupMessage(); err == nil {
				server.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "no"})
				_ = server.Flush()
			}
			c.Close()
		}
	}()
	return "postgres://quantix@" + l.Addr().String() + "/quantix?sslmode=disable"
}

// The portal waits at its start for an unavailable database, but fails immediately if the database refuses the login.
func TestStartWaitsForUnavailableDatabase(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, x := range map[string]struct {
		url   string
		waits bool
	}{
		"no listener":    {"postgres://quantix@" + closed.Addr().String() + "/quantix", true},
		"starting":       {refusingServer(t, "57P03"), true},
		"no connection":  {refusingServer(t, "53300"), true},
		"wrong password": {refusingServer(t, "28P01"), false},
		"no database":    {refusingServer(t, "3D000"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logged strings.Builder
			tries := 0
			err := waitForDatabase(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), func() error {
				if tries++; tries == 2 {
					return nil
				}
				_, err := pgx.Connect(context.WithoutCancel(t.Context()), x.url)
				return err
			})
			if (err == nil) != x.waits || (tries == 2) != x.waits {
				t.Errorf("after %d tries: %v", tries, err)
			}
			if waits := strings.Contains(logged.String(), "waits for its database"); waits != x.waits {
				t.Errorf("the log says %q", logged.String())
			}
		})
	}
}
