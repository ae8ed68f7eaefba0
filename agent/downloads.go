package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// readPatience is how long whoever takes a volume may take none of it.
const readPatience = 5 * time.Minute

// readVolume brings a volume's file to the portal where somebody waits for it. What goes wrong before the first byte is told there in words;
// behind it, a connection that ends early says enough.
func readVolume(ctx context.Context, a *Agent, j *job) error {
	switch {
	case j.Pool == nil || j.Args.Volume == nil:
		return errors.New("the portal sent this work without its pool, or without saying what to send")
	case !fleet.IsVolumeName(j.Args.Volume.Source):
		return fleet.Errorf(fleet.Invalid, "%q is no volume.", j.Args.Volume.Source)
	}
	ws, err := a.client.DialPair(ctx, j.Args.PortalURL, j.Args.Pair)
	if err != nil {
		return fmt.Errorf("go to the portal with the volume: %w", err)
	}
	conn := wire.NewPatientStream(ws, readPatience)
	defer func() { _ = conn.Close() }() // by then all is said: whoever waits counts the bytes
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // whoever waited is gone when this ends: nothing is said there
		_, _ = io.Copy(io.Discard, conn) // that it ends is all that counts
		cancel(errNobodyWaits)
	}()
	begun := false
	err = a.hypervisor.ReadVolume(ctx, VolumeWork{Pool: *j.Pool, Name: j.Args.Volume.Source, Progress: func(int, string) {}}, func(size int64) (io.Writer, error) {
		begun = true
		return conn, wire.WriteDownloadHead(conn, wire.DownloadHead{SizeBytes: size})
	})
	err = explain(ctx, err)
	switch {
	case err == nil:
	case begun:
		conn.Fail(err.Error())
	default:
		err = errors.Join(err, wire.WriteDownloadHead(conn, wire.DownloadHead{Error: err.Error()}))
	}
	return err
}

var errNobodyWaits = fleet.Errorf(fleet.Conflict, "Nobody waits for the volume any more.")

// BoundedWriter passes bytes on in messages of a bounded size, but for the last piece: whoever takes them has all only once what they came from was
// looked at again.
type BoundedWriter struct {
	To    io.Writer
	Max   int64 // that many were announced; more are refused before the last of these has gone
	Taken int64 // what was written to it, held back or not
	last  []byte
}

// Write implements io.Writer.
func (h *BoundedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > h.Max-h.Taken {
		return 0, fleet.Errorf(fleet.Conflict, "The volume became larger while it was being sent. Try again when nobody writes to it.")
	}
	for n := 0; n < len(p); {
		if len(h.last) == wire.MaxDownloadPiece {
			if err := h.Flush(); err != nil {
				return n, err
			}
		}
		k := min(len(p)-n, wire.MaxDownloadPiece-len(h.last))
		h.last = append(h.last, p[n:n+k]...)
		n, h.Taken = n+k, h.Taken+int64(k)
	}
	return len(p), nil
}

// Flush passes on what was held back.
func (h *BoundedWriter) Flush() error {
	if len(h.last) == 0 {
		return nil
	}
	_, err := h.To.Write(h.last)
	h.last = h.last[:0]
	return err
}
