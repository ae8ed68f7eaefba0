package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

const (
	maxConcurrentRequests = 8  // concurrent pages and lists of one user, in all browsers and API clients; see newUserLimiter
	maxWaitingRequests    = 64 // requests of one user that may wait for a slot
	// maxSlotWait is the maximum wait for a slot. It is well below pageTimeout, so that the refusal is still sent in
	// time.
	maxSlotWait = 1500 * time.Millisecond
)

// userLimiter is the per-user limiter: it bounds the concurrent reads of each user, so that one user cannot occupy the
// whole portal. Further reads wait.
type userLimiter struct {
	maxPerUser int
	mu         sync.Mutex
	queues     map[fleet.UserID]*userRequestQueue
}

// newUserLimiter returns a limiter that leaves most database connections to other users.
func newUserLimiter(pool func() DatabasePoolStat) *userLimiter {
	n := &userLimiter{maxPerUser: maxConcurrentRequests, queues: map[fleet.UserID]*userRequestQueue{}}
	if pool != nil {
		n.maxPerUser = min(maxConcurrentRequests, max(1, int(pool().MaxConns())*2/5))
	}
	return n
}

type userRequestQueue struct {
	slots    chan struct{}
	requests int // requests that have a slot or wait for a slot
}

// acquire waits for a slot of the user; the caller must call leave to free the slot. It fails with TooMany after
// maxSlotWait. Requests without a user need no slot, because the handlers of public pages have separate limits.
func (n *userLimiter) acquire(ctx context.Context, id fleet.UserID) (leave func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	q := n.joinQueue(id)
	if q == nil {
		return nil, n.tooManyRequestsError()
	}
	patience := time.NewTimer(maxSlotWait)
	defer patience.Stop()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots; n.leaveQueue(id) }, nil
	case <-patience.C:
		err = n.tooManyRequestsError()
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.leaveQueue(id)
	return nil, err
}

func (n *userLimiter) tooManyRequestsError() error {
	return fleet.Errorf(fleet.TooMany, "You have too many open requests: at most %d pages and lists load at the same time. Try again in a moment.", n.maxPerUser)
}

func (n *userLimiter) joinQueue(id fleet.UserID) *userRequestQueue {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := n.queues[id]
	if !ok {
		q = &userRequestQueue{slots: make(chan struct{}, n.maxPerUser)}
		n.queues[id] = q
	}
	if q.requests == n.maxPerUser+maxWaitingRequests {
		return nil
	}
	q.requests++
	return q
}

func (n *userLimiter) leaveQueue(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queues[id]
	if q.requests--; q.requests == 0 {
		delete(n.queues, id)
	}
}

// limitPerUser is the middleware of the per-user limiter. It does not limit writes, which are short and which package
// control limits.
func (s *Server) limitPerUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if k := routeOf(c).kind; c.Request().Method != http.MethodGet || k != page && k != apiCall {
			return next(c)
		}
		came := time.Now()
		leave, err := s.userLimiter.acquire(c.Request().Context(), actorOf(c).UserID)
		addIdleTime(c, time.Since(came))
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}

// beginExportRead gives ctx the time limit of a page and takes one of the user's slots. The returned function ends the
// context and frees the slot.
func (s *Server) beginExportRead(ctx context.Context, user fleet.UserID) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	leave, err := s.userLimiter.acquire(ctx, user)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, func() { leave(); cancel() }, nil
}
