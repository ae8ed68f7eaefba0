//go:build linux

package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A malicious program may run instead of the guest agent; its answers are limited in size and time.
func TestGuestAgentAnswersAreBounded(t *testing.T) {
	t.Parallel()
	sync := func(in *bufio.Reader) string {
		line, _ := in.ReadString('\n')
		_, id, _ := strings.Cut(line, `"id":`)
		return strings.TrimRight(id, "}\n")
	}
	for name, c := range map[string]struct {
		says func(in *bufio.Reader, out io.Writer)
		want string // empty: no answer counts
	}{
		"an answer": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "\xff{\"return\": %s}\n", sync(in))
			_, _ = in.ReadString('\n')
			fmt.Fprint(out, `{"return": {"version": "7.2.0"}}`+"\n")
		}, "7.2.0"},
		"an answer after stale ones": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "{\"return\": {}}\n\xff{\"return\": 5}\n\xff{\"return\": %s}\n", sync(in))
			_, _ = in.ReadString('\n')
			fmt.Fprint(out, `{"return": {"version": "7.2.1"}}`+"\n")
		}, "7.2.1"},
		"no answer":     {func(in *bufio.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, in) }, ""},
		"disconnect":    {func(*bufio.Reader, io.Writer) {}, ""},
		"wrong sync ID": {func(in *bufio.Reader, out io.Writer) { sync(in); fmt.Fprint(out, "\xff{\"return\": 5}\n") }, ""},
		"endless answer": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "\xff{\"return\": %s}\n", sync(in))
			for range 4 << 10 {
				if _, err := fmt.Fprint(out, strings.Repeat("a", 1<<10)); err != nil {
					return
				}
			}
		}, ""},
		"endless output before sync": {func(_ *bufio.Reader, out io.Writer) {
			for {
				if _, err := fmt.Fprint(out, strings.Repeat("a", 1<<16)); err != nil {
					return
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := net.Pipe()
			go func() {
				c.says(bufio.NewReader(there), there)
				there.Close()
			}()
			defer here.Close()
			var n guestRun
			err := n.queryAgent(func(command string, _ time.Duration) (string, error) {
				_ = here.SetDeadline(time.Now().Add(time.Second)) // the connection may have ended already
				return sendCommand(here, command)
			})
			if c.want != "" && n.status.Version != c.want || c.want == "" && (!errors.Is(err, errNoAnswer) || len(err.Error()) > 200) {
				t.Errorf("%+v, %.300v", n.status, err)
			}
		})
	}
}

// A command to a guest without an agent on its vsock fails within the time limit.
func TestVSOCKWithoutAgentTimesOut(t *testing.T) {
	t.Parallel()
	_, err := vsockAgentCaller(t.Context(), 4_000_000)(`{"execute":"guest-ping"}`, 200*time.Millisecond)
	if !errors.Is(err, errNoAnswer) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := vsockAgentCaller(ctx, 4_000_000)(`{"execute":"guest-ping"}`, time.Hour); !errors.Is(err, errNoAnswer) {
		t.Error(err)
	}
}
