package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An agent that ends together with the lab is not reported as restarted. An agent that ends earlier is.
func TestSupervisorReportsOnlyAgentRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var progress strings.Builder
		runs := 0
		superviseAgent(ctx, "host-1", func() error {
			if runs++; runs == 2 { // Ctrl-C reaches the agent first, and the lab a moment later
				time.AfterFunc(500*time.Millisecond, stop)
			}
			return errors.New("signal: interrupt")
		}, "/lab/h1/agent.log", &progress)
		if runs != 2 || strings.Count(progress.String(), "is started again") != 1 {
			t.Errorf("%d runs, want 2; progress: %s", runs, progress.String())
		}
	})
}
