package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// downloadReaderTimeout is how long a download waits for its reader to take more bytes.
const downloadReaderTimeout = 5 * time.Minute

// readVolume sends a volume's file to the download's reader at the portal. An error before the first byte is sent as
// text; a later error closes the connection early.
func readVolume(ctx context.Context, a *Agent, j *job) error {
	switch {
	case j.Pool == nil || j.Args.Volume == nil:
		return errors.New("the portal sent this job without its pool or its volume")
	case !fleet.IsVolumeName(j.Args.Volume.Source):
		return fleet.Errorf(fleet.Invalid, "%q is not a valid volume name.", j.Args.Volume.Source)
	}
	ws, err := a.client.DialRelay(ctx, j.Args.PortalURL, j.Args.Pair)
	if err != nil {
		return fmt.Errorf("dial the portal to send the volume: %w", err)
	}
	conn := wire.NewSlowReaderStream(ws, downloadReaderTimeout)
	defer func() { _ = conn.Close() }() // the reader counts the bytes, so the close can fail safely
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // the reader sends no bytes: the end of this read means that the reader has disconnected
		_, _ = io.Copy(io.Discard, conn)
		cancel(errDownloadClientGone)
	}()
	begun := false
	err = a.hypervisor.ReadVolume(ctx, hypervisor.VolumeWork{Pool: *j.Pool, Name: j.Args.Volume.Source, Progress: func(int, string) {}}, func(size int64) (io.Writer, error) {
		begun = true
		return conn, wire.WriteDownloadHead(conn, wire.DownloadHead{SizeBytes: size})
	})
	err = addContextCause(ctx, err)
	switch {
	case err == nil:
	case begun:
		conn.Fail(err.Error())
	default:
		err = errors.Join(err, wire.WriteDownloadHead(conn, wire.DownloadHead{Error: err.Error()}))
	}
	return err
}

var errDownloadClientGone = fleet.Errorf(fleet.Conflict, "The download's client has disconnected.")
