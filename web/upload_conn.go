package web

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
	"quantix/internal/wire"
)

// uploadAnswerTimeout is how long a host may take to write a piece to its storage.
const uploadAnswerTimeout = time.Minute

// uploadRelayConfig configures the relay for uploads. The portal itself is the sending end, on behalf of the user.
var uploadRelayConfig = relay.KindConfig{
	Kind:         relay.Upload,
	Wait:         [2]time.Duration{relay.Requester: 15 * time.Second, relay.Answerer: 15 * time.Second},
	NoPeer:       [2]string{relay.Requester: "The host did not answer in time.", relay.Answerer: "The upload's client left before the host connected."},
	Disconnected: [2]string{relay.Requester: "The client stopped the upload.", relay.Answerer: "The host ended the connection."},
	Unreachable:  [2]string{relay.Requester: "The client is no longer connected.", relay.Answerer: "The host is no longer connected."},
	Taken:        "Another client continues this upload already.",
	NotBinary:    "An upload carries binary messages only.",
}

// transferBuffers pools the buffers of transfers. Each upload or download uses one buffer, however large the file is.
var transferBuffers = sync.Pool{New: func() any { return new([wire.UploadHeader + wire.MaxUploadPiece]byte) }}

// uploadConn is the portal's connection to the host that receives an upload.
type uploadConn struct {
	stream  *wire.Stream
	release func()
	host    string
	offset  int64 // bytes that the host has stored durably
	answers chan wire.UploadAnswer
	ended   chan struct{} // closed when the host's connection has ended
}

// maxConnectTries is how often the portal asks the host to connect if the connection ends before the host reports the
// offset. An earlier request of the same upload, whose client has disconnected, may have taken the host's connection.
const maxConnectTries = 3

// openUploadConn asks the upload's host to connect, and reads the offset from the host. If the upload has ended
// instead, the error is the upload's result.
func (s *Server) openUploadConn(ctx context.Context, a fleet.Actor, u fleet.Upload) (l *uploadConn, err error) {
	for range maxConnectTries {
		if l, err = s.connectUploadHost(ctx, a, u); !errors.Is(err, errHostDisconnected) {
			return l, err
		}
	}
	return nil, s.uploadConnError(ctx, a, u, err)
}

var errHostDisconnected = errors.New("the host disconnected before it reported the offset")

func (s *Server) connectUploadHost(ctx context.Context, a fleet.Actor, u fleet.Upload) (*uploadConn, error) {
	subject := string(fleet.SubjectVolume(fleet.Volref{PoolID: u.PoolID, Volume: u.Volume}))
	sub := s.Hub.Subscribe(subject)
	defer sub.Close()
	end, err := s.Control.ContinueUpload(ctx, a, u.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sub.C:
			}
			if now, err := s.Control.GetUpload(ctx, a, u.ID); err == nil && now.State.IsFinal() {
				cancel(errUploadEnded)
			}
		}
	}()
	ws, release, err := s.relayBroker.ConnectPortalSide(ctx, end)
	if err != nil {
		return nil, s.uploadConnError(ctx, a, u, err)
	}
	l := &uploadConn{stream: wire.NewStream(ws), release: release, host: u.HostName, answers: make(chan wire.UploadAnswer, 1), ended: make(chan struct{})}
	go l.readAnswers()
	first, err := l.nextAnswer(ctx)
	select {
	case <-l.ended:
		if err != nil && ctx.Err() == nil {
			l.close()
			return nil, errHostDisconnected
		}
	default:
	}
	if err == nil && first.Error != "" {
		err = errUploadEnded
	}
	if err != nil {
		l.close()
		return nil, s.uploadConnError(ctx, a, u, err)
	}
	l.offset = first.Offset
	return l, nil
}

var errUploadEnded = errors.New("the upload has ended")

// uploadConnError returns the upload's result if the upload has ended (errUploadEnded after success). Otherwise it
// returns Unavailable, because the host is not connected.
func (s *Server) uploadConnError(ctx context.Context, a fleet.Actor, u fleet.Upload, err error) error {
	ended := errors.Is(err, errUploadEnded) || errors.Is(context.Cause(ctx), errUploadEnded)
	if ctx.Err() != nil && !ended {
		return ctx.Err()
	}
	fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	now, failed := s.Control.GetUpload(fresh, a, u.ID)
	switch {
	case failed != nil:
		return failed
	case now.IsComplete():
		return errUploadEnded
	case now.EndedError() != nil:
		return now.EndedError()
	}
	return fleet.Errorf(fleet.Unavailable, "The host %s did not connect for the upload. Continue the upload when the host is online again: the host keeps the data that has arrived.", u.HostName)
}

func (l *uploadConn) readAnswers() {
	defer close(l.ended)
	next := wire.NewUploadAnswerReader(l.stream)
	for {
		a, err := next()
		if err != nil {
			return
		}
		select {
		case l.answers <- a:
		default: // a second message before the portal has read the first one breaks the protocol
			return
		}
	}
}

// nextAnswer waits for the host's next message.
func (l *uploadConn) nextAnswer(ctx context.Context) (wire.UploadAnswer, error) {
	late := time.NewTimer(uploadAnswerTimeout)
	defer late.Stop()
	select {
	case a := <-l.answers:
		return a, nil
	case <-l.ended:
		select {
		case a := <-l.answers: // the host sent a last message before it disconnected
			return a, nil
		default:
		}
		return wire.UploadAnswer{}, l.hostLostError()
	case <-late.C:
		return wire.UploadAnswer{}, fleet.Errorf(fleet.Unavailable, "The storage of the host %s did not store the data in time. Continue the upload.", l.host)
	case <-ctx.Done():
		return wire.UploadAnswer{}, ctx.Err()
	}
}

func (l *uploadConn) hostLostError() error {
	return fleet.Errorf(fleet.Unavailable, "The connection to the host %s was lost. Continue the upload.", l.host)
}

// sendChunks forwards the data of from to the host in chunks, and returns how many of these bytes the host has stored
// durably. It buffers only one chunk.
func (l *uploadConn) sendChunks(ctx context.Context, from io.Reader) (int64, error) {
	piece := transferBuffers.Get().(*[wire.UploadHeader + wire.MaxUploadPiece]byte)
	defer transferBuffers.Put(piece)
	defer context.AfterFunc(ctx, l.close)()
	var cut error
	for {
		n, err := from.Read(piece[wire.UploadHeader:])
		if n > 0 {
			wire.PutUploadHeader(piece[:], n)
			if _, err := l.stream.Write(piece[:wire.UploadHeader+n]); err != nil {
				return l.lastAnswer(ctx)
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				cut = err
			}
			break
		}
	}
	if _, err := l.stream.Write(make([]byte, wire.UploadHeader)); err != nil {
		return l.lastAnswer(ctx)
	}
	a, err := l.nextAnswer(ctx)
	if err != nil {
		return 0, err
	}
	came := a.Offset - l.offset
	l.offset = a.Offset
	switch {
	case a.Final:
		return came, errUploadEnded
	case a.Error != "":
		return came, fleet.Errorf(fleet.Invalid, "%s", a.Error)
	}
	return came, cut
}

// lastAnswer waits for the last message of a host that accepts no more data, and returns the result in that message.
func (l *uploadConn) lastAnswer(ctx context.Context) (int64, error) {
	a, err := l.nextAnswer(ctx)
	switch {
	case err != nil:
		return 0, err
	case a.Final:
		return 0, errUploadEnded
	case a.Error != "":
		return 0, fleet.Errorf(fleet.Invalid, "%s", a.Error)
	}
	return 0, l.hostLostError()
}

func (l *uploadConn) close() {
	_ = l.stream.Close() // the host may have disconnected before
	l.release()
}

// awaitUpload waits until the upload has ended, for at most uploadAnswerTimeout, and returns the upload's current
// state.
func (s *Server) awaitUpload(ctx context.Context, a fleet.Actor, u fleet.Upload) (fleet.Upload, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return u, err
	}
	sub := s.Hub.Subscribe(string(fleet.SubjectVolume(fleet.Volref{PoolID: u.PoolID, Volume: u.Volume})))
	defer sub.Close()
	late := time.NewTimer(uploadAnswerTimeout)
	defer late.Stop()
	for {
		now, err := s.Control.GetUpload(ctx, a, u.ID)
		if err != nil || now.State.IsFinal() {
			return now, err
		}
		select {
		case <-sub.C:
		case <-late.C:
			return now, nil
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}
