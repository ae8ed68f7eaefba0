package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

const (
	maxEventStreamsPerUser = 10  // streams of events for programs
	maxEventStreams        = 200 // of all users on this portal
	maxTaskWaitsPerUser    = 32  // calls that wait for a task
	maxTaskWaits           = 400 // of all users on this portal

	// minEventReadInterval is the minimum interval between two reads of one stream. Each open stream adds
	// eventReadIntervalPerStream.
	minEventReadInterval       = 100 * time.Millisecond
	eventReadIntervalPerStream = 5 * time.Millisecond
	eventPollInterval          = 5 * time.Second // reads without a wake-up, for lost ones
	minPendingInterval         = 20 * time.Millisecond
	maxPendingInterval         = time.Second // between reads while older transactions are open
	eventKeepAliveInterval     = 15 * time.Second
	// positionInterval is the interval at which a stream without events sends its position, so that the position of its
	// client stays in the log.
	positionInterval = 10 * time.Minute
	// actorLifetime is how long a stream uses an actor's permissions before it reads them again for the next events.
	// Wake-ups about changes cause additional reads.
	actorLifetime = time.Second
	taskPoll      = 2 * time.Second // reads of a task without a wake-up
)

// programLimits limits the streams and waiting calls of API clients.
type programLimits struct {
	streams, waits userStreamCounts
	reads          chan struct{} // slots of concurrent reads; other requests need most database connections
}

func newProgramLimits(pool func() DatabasePoolStat) programLimits {
	n := 4
	if pool != nil {
		n = max(1, int(pool().MaxConns())/4)
	}
	return programLimits{
		streams: newUserStreamCounts(maxEventStreamsPerUser, maxEventStreams), waits: newUserStreamCounts(maxTaskWaitsPerUser, maxTaskWaits), reads: make(chan struct{}, n),
	}
}

// run calls read when a slot is free, with the time limit of a page.
func (l *programLimits) run(ctx context.Context, read func(context.Context) error) error {
	select {
	case l.reads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.reads }()
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	return read(ctx)
}

// programActor is the actor of a long request with a bearer token.
type programActor struct {
	server *Server
	token  string
	actor  fleet.Actor
	readAt time.Time // of the permissions
}

func (s *Server) newProgramActor(r *http.Request, a fleet.Actor) *programActor {
	return &programActor{s, auth.BearerToken(r), a, time.Now()}
}

// refresh reads the actor's permissions again if they are older than age. It fails if the token is no longer valid.
func (p *programActor) refresh(ctx context.Context, age time.Duration) error {
	if time.Since(p.readAt) < age {
		return nil
	}
	a, err := p.server.Control.ActorOfToken(ctx, fleet.Actor{Address: p.actor.Address}, p.token)
	if err == nil {
		p.actor, p.readAt = a, time.Now()
	}
	return err
}

// openEvents opens a stream of events for an API client. The stream begins with a resync if the log does not contain the
// client's position.
func (s *Server) openEvents(c echo.Context, a fleet.Actor, q event.Query) (serve func(), err error) {
	if !s.programs.streams.tryAcquire(a.UserID) {
		return nil, fleet.Errorf(fleet.TooMany, "Too many streams of events are open: at most %d of one user, and %d in all. Close some, or try again in a moment.", maxEventStreamsPerUser, maxEventStreams)
	}
	p := &programStream{
		server: s, request: c.Request(), query: q, actor: s.newProgramActor(c.Request(), a),
		out: &eventWriter{w: c.Response(), control: http.NewResponseController(c.Response())},
		// One key is enough, because the stream reads the log after any wake-up.
		sub: s.Hub.SubscribeWithLimit(1, event.WakeKeys(q.Types)...), permissions: s.Hub.SubscribeWithLimit(1, permissionKeys(a)...),
	}
	closeStream := func() {
		p.sub.Close()
		p.permissions.Close()
		s.programs.streams.release(a.UserID)
	}
	if err := p.read(); err != nil {
		closeStream()
		return nil, err
	}
	return func() {
		defer closeStream()
		h := c.Response().Header()
		h.Set(echo.HeaderContentType, "text/event-stream")
		h.Set("X-Accel-Buffering", "no")
		c.Response().WriteHeader(http.StatusOK)
		p.serve()
	}, nil
}

// programStream is one stream of events.
type programStream struct {
	server           *Server
	request          *http.Request
	query            event.Query // After is the position
	actor            *programActor
	sub, permissions *notify.Subscription
	out              *eventWriter

	batch    event.Batch // the last read, not yet written
	resync   event.ResyncReason
	sentID   event.ID      // position that the client knows
	pendings time.Duration // last interval because of open transactions
}

// read reads the next batch with current permissions. A position that the log does not contain is replaced by the newest
// one.
func (p *programStream) read() error {
	return p.server.programs.run(p.request.Context(), func(ctx context.Context) error {
		b, err := p.server.Control.ReadEvents(ctx, p.actor.actor, p.query)
		if err != nil {
			return err
		}
		if len(b.Events) > 0 && time.Since(p.actor.readAt) >= actorLifetime {
			if err := p.actor.refresh(ctx, actorLifetime); err != nil {
				return err
			}
			if b, err = p.server.Control.ReadEvents(ctx, p.actor.actor, p.query); err != nil {
				return err
			}
		}
		p.resync = ""
		switch {
		case b.Known:
		case p.query.After == "":
			p.resync = event.ResyncNew
		default:
			p.resync = event.ResyncUnknown
		}
		p.batch, p.query.After = b, b.Next
		return nil
	})
}

// serve writes events until the client disconnects or reads too slowly, the token ends, or the portal stops.
func (p *programStream) serve() {
	p.sentID = p.query.After
	p.out.write(": open\n\n")
	p.writeBatch()
	next, ping := time.NewTimer(p.nextRead(nil)), time.NewTicker(eventKeepAliveInterval)
	check, position := time.NewTicker(permissionCheckInterval), time.NewTicker(positionInterval)
	defer func() { next.Stop(); ping.Stop(); check.Stop(); position.Stop() }()
	readAt := time.Now()
	for p.out.err == nil {
		select {
		case <-p.request.Context().Done():
			return
		case <-p.sub.C:
			p.sub.TakeKeys()
			next.Reset(max(0, p.minInterval()-time.Since(readAt)))
		case <-p.permissions.C:
			p.permissions.TakeKeys()
			if p.lostPermission() {
				return
			}
		case <-check.C:
			if p.lostPermission() {
				return
			}
		case <-ping.C:
			p.out.write(": keep-alive\n\n")
		case <-position.C:
			if p.sentID != p.query.After {
				p.sentID = p.query.After
				p.out.write("id: " + string(p.sentID) + "\n\n")
			}
		case <-next.C:
			readAt = time.Now()
			err := p.read()
			if isLostPermission(err) {
				return
			}
			if err == nil {
				p.writeBatch()
			}
			next.Reset(p.nextRead(err))
		}
	}
}

func (p *programStream) minInterval() time.Duration {
	return minEventReadInterval + time.Duration(p.server.programs.streams.count())*eventReadIntervalPerStream
}

// nextRead returns the time until the next read without a wake-up.
func (p *programStream) nextRead(err error) time.Duration {
	switch {
	case err != nil:
		return time.Second
	case p.batch.More:
		return 0
	case p.batch.Pending:
		p.pendings = min(maxPendingInterval, max(minPendingInterval, 2*p.pendings))
		return p.pendings
	}
	p.pendings = 0
	return eventPollInterval
}

// lostPermission reads the permissions again, and reports whether the token has ended or sees no events any more. An
// unavailable database ends no stream.
func (p *programStream) lostPermission() bool {
	err := p.server.programs.run(p.request.Context(), func(ctx context.Context) error {
		if err := p.actor.refresh(ctx, 0); err != nil {
			return err
		}
		_, err := p.server.Control.ReadEvents(ctx, p.actor.actor, event.Query{Types: p.query.Types, Project: p.query.Project})
		return err
	})
	return isLostPermission(err)
}

// writeBatch writes the batch with one write, so that a client that does not read is disconnected after one write
// timeout.
func (p *programStream) writeBatch() {
	var text strings.Builder
	add := func(id event.ID, name string, data any) {
		encoded, err := json.Marshal(data)
		if err != nil {
			p.out.err = err // plain values always encode
			return
		}
		text.WriteString("id: " + string(id) + "\nevent: " + name + "\ndata: ")
		text.Write(encoded)
		text.WriteString("\n\n")
		p.sentID = id
	}
	if p.resync != "" {
		add(p.query.After, event.TypeResync, event.NewResync(p.query.After, p.resync))
	}
	for _, e := range p.batch.Events {
		add(e.ID, e.Type, e)
	}
	p.batch.Events, p.resync = nil, ""
	if text.Len() > 0 {
		p.out.write(text.String())
	}
}

// waitForTask returns a task when it has ended, or its state after the time.
func (s *Server) waitForTask(c echo.Context, a fleet.Actor, id fleet.TaskID, wait time.Duration) (fleet.Task, error) {
	if !s.programs.waits.tryAcquire(a.UserID) {
		return fleet.Task{}, fleet.Errorf(fleet.TooMany, "Too many calls wait for tasks: at most %d of one user, and %d in all. Try again in a moment.", maxTaskWaitsPerUser, maxTaskWaits)
	}
	defer s.programs.waits.release(a.UserID)
	r := c.Request()
	actor := s.newProgramActor(r, a)
	var task fleet.Task
	read := func() error {
		return s.programs.run(r.Context(), func(ctx context.Context) error {
			err := actor.refresh(ctx, actorLifetime)
			if err == nil {
				task, err = s.Control.GetTask(ctx, actor.actor, id)
			}
			return err
		})
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	err := read()
	if err != nil || task.State.IsFinal() || wait == 0 {
		return task, err
	}
	sub := s.Hub.SubscribeWithLimit(1, taskKey(task))
	defer sub.Close()
	next := time.NewTimer(0) // the task may have ended before the subscription
	defer next.Stop()
	readAt := time.Now()
	for {
		select {
		case <-r.Context().Done():
			return task, errors.Join(fleet.Errorf(fleet.Unavailable, "The portal stops. Send the request again."), r.Context().Err())
		case <-limit.C:
			return task, read()
		case <-sub.C:
			sub.TakeKeys()
			next.Reset(max(0, minEventReadInterval-time.Since(readAt)))
		case <-next.C:
			readAt = time.Now()
			if err := read(); err != nil || task.State.IsFinal() {
				return task, err
			}
			next.Reset(taskPoll)
		}
	}
}

// taskKey returns the key of wake-ups about a task.
func taskKey(t fleet.Task) string {
	if t.Subject != "" {
		return string(t.Subject)
	}
	return fleet.TypeTask.Info().AllKey
}

// EventStreams returns the number of open streams of events of API clients.
func (s *Server) EventStreams() int { return s.programs.streams.count() }
