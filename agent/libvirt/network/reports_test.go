package network

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"quantix/agent/libvirt/conn"
)

// The first read of the networks is awaited, because the portal treats a missing network as deleted. Later reads are
// not awaited.
func TestFirstReportWaitsForNetworkRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w networkWatch
		slow := func() ([]networkState, error) {
			time.Sleep(networkReadTimeout + time.Second)
			return []networkState{{}}, nil
		}
		if s, err := w.readRecent(t.Context(), slow); err != nil || len(s.Value) != 1 {
			t.Errorf("a slow first read: %+v, %v", s, err)
		}
		begun := time.Now()
		if s, err := w.readRecent(t.Context(), slow); err != nil || len(s.Value) != 1 || time.Since(begun) != networkReadTimeout {
			t.Errorf("a slow later read: %+v, %v, after %v", s, err, time.Since(begun))
		}
		synctest.Wait()
		var hung networkWatch
		end := make(chan struct{})
		never := func() ([]networkState, error) { <-end; return nil, conn.ErrConnectionLost }
		ctx, cancel := context.WithTimeout(t.Context(), conn.HostStateTimeout)
		defer cancel()
		if _, err := hung.readRecent(ctx, never); !errors.Is(err, errNetworksNotRead) {
			t.Errorf("a first read that never ends: %v", err)
		}
		close(end)
		synctest.Wait()
		if _, err := hung.readRecent(t.Context(), never); !errors.Is(err, conn.ErrConnectionLost) {
			t.Errorf("a failing read: %v", err)
		}
		if s, err := hung.readRecent(t.Context(), slow); err != nil || len(s.Value) != 1 {
			t.Errorf("a slow read after a failed one: %+v, %v", s, err)
		}
	})
}
