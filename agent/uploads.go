package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// maxUploads limits the concurrent uploads of a host.
const maxUploads = 64

// uploadWaiters passes incoming connections to the upload jobs that wait for them.
type uploadWaiters struct {
	mu         sync.Mutex
	byUpload   map[fleet.UploadID]*waitingUpload
	registered changeSignal
}

type waitingUpload struct {
	conns chan io.ReadWriteCloser
	ended chan struct{}
}

func (c *uploadWaiters) register(id fleet.UploadID) (*waitingUpload, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.byUpload[id] != nil:
		return nil, fleet.Errorf(fleet.Conflict, "This upload is in progress already.")
	case len(c.byUpload) >= maxUploads:
		return nil, fleet.Errorf(fleet.TooMany, "This host has %d uploads in progress already. Finish or cancel an upload.", maxUploads)
	}
	if c.byUpload == nil {
		c.byUpload = map[fleet.UploadID]*waitingUpload{}
	}
	at := &waitingUpload{conns: make(chan io.ReadWriteCloser), ended: make(chan struct{})}
	c.byUpload[id] = at
	c.registered.broadcast()
	return at, nil
}

func (c *uploadWaiters) unregister(id fleet.UploadID, at *waitingUpload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byUpload, id)
	close(at.ended)
}

// find waits until the upload is registered, because its job may still be starting.
func (c *uploadWaiters) find(ctx context.Context, id fleet.UploadID) (*waitingUpload, error) {
	for {
		registered := c.registered.wait()
		c.mu.Lock()
		at := c.byUpload[id]
		c.mu.Unlock()
		if at != nil {
			return at, nil
		}
		select {
		case <-registered:
		case <-ctx.Done():
			return nil, fleet.Errorf(fleet.Conflict, "The host is not receiving this upload now.")
		}
	}
}

// uploadVolume receives an upload until it is complete. The upload's client may pause for long, so no progress is
// required.
func uploadVolume(ctx context.Context, a *Agent, j *job) error {
	ref, ok := j.Subject.Volume()
	switch {
	case !ok || !fleet.IsVolumeName(ref.Volume):
		return fleet.Errorf(fleet.Invalid, "%q is not a valid volume.", string(j.Subject))
	case j.Pool == nil || j.Pool.ID != ref.PoolID || j.Args.Volume == nil || j.Args.Volume.Upload == "" || j.Args.Volume.SizeBytes <= 0:
		return errors.New("the portal sent this job without its pool or its upload")
	}
	at, err := a.uploads.register(j.Args.Volume.Upload)
	if err != nil {
		return err
	}
	defer a.uploads.unregister(j.Args.Volume.Upload, at)
	return a.hypervisor.UploadVolume(ctx, hypervisor.VolumeWork{
		Pool: *j.Pool, Name: ref.Volume, Params: *j.Args.Volume, RecordedFile: a.state.createdVolumeFile(j.ID), UploadConns: at.conns,
		RecordFile: func(file string) error {
			if err := a.state.recordCreatedVolume(j.ID, file); err != nil {
				return fmt.Errorf("the volume was uploaded, but the agent cannot record its file: %w", err)
			}
			return nil
		},
		Progress: j.notifier.notify,
	})
}

// openUpload dials the portal, where a client continues an upload, and passes the connection to the upload's job.
func openUpload(ctx context.Context, a *Agent, j *job) error {
	at, err := a.uploads.find(ctx, j.Args.Upload)
	if err != nil {
		return err
	}
	ws, err := a.client.DialRelay(ctx, j.Args.PortalURL, j.Args.Pair)
	if err != nil {
		return fmt.Errorf("dial the portal for the upload: %w", err)
	}
	conn := wire.NewStream(ws)
	select {
	case at.conns <- conn:
		return nil
	case <-at.ended:
		err = fleet.Errorf(fleet.Conflict, "The upload has ended.")
	case <-ctx.Done():
		err = fleet.Errorf(fleet.Unavailable, "The host's storage does not answer.")
	}
	conn.Fail(err.Error())
	return err
}
