// Package requests has the use cases of requests: users ask for more quota, a pool, a network or a new VM, and owners of
// the project or administrators decide.
package requests

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/publishing"
	"quantix/internal/control/query"
	"quantix/internal/control/quotas"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/request"
)

// Requests has the use cases of requests. Its exported methods are use cases of control.Control.
type Requests struct {
	store   *store.Store
	queries *query.Queries
	vms     VMCreator
}

// VMCreator creates the VM of a request that is approved.
type VMCreator interface {
	// CreateRequestedVM creates the VM of the stored input for the user who requested it. mayBreakRules: the project's
	// rules do not bind the VM.
	CreateRequestedVM(ctx context.Context, tx pgx.Tx, requester fleet.Actor, id request.ID, input []byte, mayBreakRules bool) (fleet.VMView, error)
}

// New returns the Requests of the store.
func New(s *store.Store, q *query.Queries, vms VMCreator) *Requests { return &Requests{s, q, vms} }

// newRequest is a request before it is stored.
type newRequest struct {
	project            fleet.ProjectID
	kind               request.Kind
	title, reason, key string
	wanted             request.Wanted
	input              func(id request.ID) ([]byte, error) // nil: none
}

// CreateRequest asks for quota, a pool or a network. It replaces an open request of the same user for the same.
func (rs *Requests) CreateRequest(ctx context.Context, a fleet.Actor, in request.Input) (request.Request, error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return request.Request{}, store.UnknownProjectError(err)
	}
	var checks fleet.Checks
	switch {
	case in.ProjectID == "":
		checks.Add("projectId", "Choose the project.")
	case in.Kind == request.VM:
		checks.Add("vm", "Describe the VM.")
	}
	if err := checks.Err(); err != nil {
		return request.Request{}, err
	}
	var id request.ID
	err := rs.store.Tx(ctx, func(q *db.Queries) error {
		if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
			return store.NotFoundError(err, "project")
		}
		now, err := q.GetQuota(ctx, in.ProjectID)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var checks fleet.Checks
		in.Check(&checks, now)
		if err := checks.Err(); err != nil {
			return err
		}
		n := newRequest{
			project: in.ProjectID, kind: in.Kind, title: in.Title(), reason: in.Reason, key: in.Key(), wanted: request.Wanted{Limits: in.Limits, Text: in.Text},
		}
		id, err = n.add(ctx, q, a)
		return err
	})
	if err != nil {
		return request.Request{}, err
	}
	return rs.queries.GetRequest(ctx, a, id)
}

// AddVM stores the request for a VM in the transaction of q, and returns its ID. The caller checks the VM and the
// permission. input returns what CreateRequestedVM needs.
func AddVM(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, vm request.WantedVM, reason string, input func(request.ID) ([]byte, error)) (request.ID, error) {
	n := newRequest{
		project: project, kind: request.VM, title: "VM " + vm.Name, reason: reason, key: vm.Name, wanted: request.Wanted{VM: &vm}, input: input,
	}
	return n.add(ctx, q, a)
}

// add stores the request, or replaces an open one of the same user with the same key.
func (n newRequest) add(ctx context.Context, q *db.Queries, a fleet.Actor) (request.ID, error) {
	if a.UserID == "" {
		return "", fleet.Errorf(fleet.Forbidden, "Only a person can make a request.")
	}
	if err := q.LockRequestList(ctx, string(n.project)); err != nil {
		return "", err
	}
	open, err := q.OpenRequests(ctx, db.OpenRequestsParams{Kind: n.kind, Key: n.key, ProjectID: n.project, UserID: string(a.UserID)})
	if err != nil {
		return "", err
	}
	id := request.ID(open.Same)
	if id == "" {
		if open.Total >= request.MaxOpen {
			return "", fleet.Errorf(fleet.Conflict, "You have %d open requests in this project, which is the maximum. Withdraw some, or wait for decisions.", open.Total)
		}
		id = fleet.NewID[request.ID]()
	}
	var input []byte
	if n.input != nil {
		if input, err = n.input(id); err != nil {
			return "", err
		}
	}
	wanted, err := json.Marshal(n.wanted)
	if err != nil {
		return "", err
	}
	if len(wanted)+len(input) > request.MaxStored {
		return "", fleet.Errorf(fleet.TooLarge, "This request has more than %s. Leave something out.", fleet.FormatBytes(request.MaxStored))
	}
	action := "request.create"
	if open.Same != "" {
		action = "request.renew"
		var renewed int64
		renewed, err = q.RenewRequest(ctx, db.RenewRequestParams{ID: id, Name: n.title, Reason: n.reason, Wanted: n.wanted, Input: input})
		if err == nil && renewed == 0 {
			err = fleet.Errorf(fleet.Conflict, "Your earlier request for the same was decided meanwhile. Look at it, or send this one again.")
		}
	} else {
		err = q.AddRequest(ctx, db.AddRequestParams{
			ID: id, ProjectID: n.project, UserID: &a.UserID, RequestedBy: a.Name, Kind: n.kind, Name: n.title, Reason: n.reason, Wanted: n.wanted, Input: input, Key: n.key,
		})
	}
	if err != nil {
		return "", err
	}
	return id, audit(ctx, q, a, action, id, n.title, n.reason)
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id request.ID, name, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeRequest, id), name, detail)
}

// Seen is the request that the person who decides saw.
type Seen struct {
	IfGeneration int64 `json:"ifGeneration,omitempty" doc:"The request's expected generation: the decision is refused if the user has changed the request; absent: not checked"`
}

// Approval is the input of ApproveRequest.
type Approval struct {
	Seen
	Comment   string          `json:"comment,omitempty" doc:"For the user who made the request, at most 500 characters"`
	PoolID    fleet.PoolID    `json:"poolId,omitempty" doc:"The pool to publish, for a request of the kind pool"`
	NetworkID fleet.NetworkID `json:"networkId,omitempty" doc:"The network to publish, for a request of the kind network"`
}

// ApproveRequest fulfils the request and closes it, in one transaction: it raises limits, publishes a pool or network, or creates the VM for the user who requested it. A VM that exceeds the quota raises the quota if the
// actor may change it.
func (rs *Requests) ApproveRequest(ctx context.Context, a fleet.Actor, id request.ID, in Approval) (request.Request, error) {
	return rs.decide(ctx, a, id, decision{request.Approved, in.Comment, in.Seen}, func(ctx context.Context, tx pgx.Tx, r db.LockRequestRow) (out request.Result, err error) {
		q := db.New(tx)
		var checks fleet.Checks
		switch r.Kind {
		case request.Quota:
			out.Quota, err = quotas.Raise(ctx, q, a, r.ProjectID, func(was quota.Quota, _ quota.Usage) quota.Quota { return r.Wanted.Raised(was) })
		case request.Pool:
			if !fleet.IsID(string(in.PoolID)) {
				checks.Add("poolId", "Choose the pool to publish.")
				return out, checks.Err()
			}
			out.PoolID = in.PoolID
			out.Name, err = publishing.PublishPool(ctx, q, a, in.PoolID, r.ProjectID)
		case request.Network:
			if !fleet.IsID(string(in.NetworkID)) {
				checks.Add("networkId", "Choose the network to publish.")
				return out, checks.Err()
			}
			out.NetworkID = in.NetworkID
			out.Name, err = publishing.PublishNetwork(ctx, q, a, in.NetworkID, r.ProjectID)
		case request.VM:
			return rs.createVM(ctx, tx, a, r)
		}
		return out, err
	})
}

// createVM creates the requested VM and raises the project's quota as far as needed, if the actor may.
func (rs *Requests) createVM(ctx context.Context, tx pgx.Tx, a fleet.Actor, r db.LockRequestRow) (out request.Result, err error) {
	q := db.New(tx)
	requester, err := store.ActorNow(ctx, q, r.UserID, r.RequestedBy)
	if err != nil {
		return out, err
	}
	raises := policy.May(a, policy.Manage, "")
	if raises {
		if err := q.SkipQuota(ctx); err != nil {
			return out, err
		}
	}
	vm, err := rs.vms.CreateRequestedVM(ctx, tx, requester, r.ID, r.Input, policy.May(a, policy.InfraChange, ""))
	if err != nil {
		return out, err
	}
	out.VMID, out.Name = vm.ID, vm.Name
	if !raises {
		return out, nil
	}
	of, err := quotas.VMUse(ctx, q, vm.ID)
	if err != nil {
		return out, err
	}
	out.Quota, err = quotas.Raise(ctx, q, a, r.ProjectID, func(was quota.Quota, used quota.Usage) quota.Quota {
		return request.RaisedToFit(was, used, of)
	})
	return out, err
}

// Refusal is the input of RefuseRequest.
type Refusal struct {
	Seen
	Comment string `json:"comment" doc:"Why, at most 500 characters"`
}

// RefuseRequest closes a request without fulfilling it.
func (rs *Requests) RefuseRequest(ctx context.Context, a fleet.Actor, id request.ID, in Refusal) (request.Request, error) {
	return rs.decide(ctx, a, id, decision{request.Refused, in.Comment, in.Seen}, nil)
}

// WithdrawRequest closes an open request of the actor.
func (rs *Requests) WithdrawRequest(ctx context.Context, a fleet.Actor, id request.ID) (request.Request, error) {
	return rs.decide(ctx, a, id, decision{to: request.Withdrawn}, nil)
}

// decision closes a request with the state to.
type decision struct {
	to      request.State
	comment string
	seen    Seen
}

// decide locks an open request that the actor may decide, calls do, and closes the request.
func (rs *Requests) decide(ctx context.Context, a fleet.Actor, id request.ID, d decision, do func(context.Context, pgx.Tx, db.LockRequestRow) (request.Result, error)) (request.Request, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return request.Request{}, err
	}
	if err := store.CheckID(id, "request"); err != nil {
		return request.Request{}, err
	}
	err := rs.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		r, err := q.LockRequest(ctx, id)
		if err == nil && !policy.May(a, policy.VMSee, r.ProjectID) {
			err = pgx.ErrNoRows
		}
		if err != nil {
			return store.NotFoundError(err, "request")
		}
		if err := mayDecide(a, r, d.to); err != nil {
			return err
		}
		if r.State != request.Open {
			return fleet.Errorf(fleet.Conflict, "%s", request.WhyDecided(r.State, r.DecidedBy))
		}
		if seen := d.seen.IfGeneration; seen != 0 && seen != r.Generation {
			return fleet.Errorf(fleet.Conflict, "The request was changed meanwhile. Look at it again.")
		}
		var checks fleet.Checks
		request.CheckText(&checks, "comment", d.comment, d.to == request.Refused, "Say why, so that the user knows what to do.")
		if err := checks.Err(); err != nil {
			return err
		}
		var result request.Result
		if do != nil {
			if result, err = do(ctx, tx, r); err != nil {
				return err
			}
		}
		if err := q.DecideRequest(ctx, db.DecideRequestParams{ID: id, State: d.to, DecidedBy: a.Name, Comment: d.comment, Result: result}); err != nil {
			return err
		}
		return audit(ctx, q, a, actions[d.to], id, r.Name, d.comment)
	})
	if err != nil {
		return request.Request{}, err
	}
	return rs.queries.GetRequest(ctx, a, id)
}

// actions are the actions of decisions in the audit log.
var actions = map[request.State]string{request.Approved: "request.approve", request.Refused: "request.refuse", request.Withdrawn: "request.withdraw"}

// mayDecide refuses actors who may not bring the request into the state.
func mayDecide(a fleet.Actor, r db.LockRequestRow, to request.State) error {
	if to != request.Withdrawn {
		return policy.Check(a, r.Kind.Info().Decide, r.ProjectID)
	}
	if a.UserID == "" || r.UserID == nil || *r.UserID != a.UserID {
		return fleet.Errorf(fleet.Forbidden, "Only the user who made the request can withdraw it. Refuse it instead.")
	}
	return nil
}

// maxSwept limits the requests that one transaction ends or deletes.
const maxSwept = 1000

// ExpireRequests ends requests that nobody decided, and deletes old ones.
func (rs *Requests) ExpireRequests(ctx context.Context, a fleet.Actor) error {
	return rs.store.RunPass(ctx, a, "expire requests", func(q *db.Queries) error {
		ended, err := q.ExpireRequests(ctx, db.ExpireRequestsParams{Age: request.Lifetime, Most: maxSwept})
		if err != nil {
			return err
		}
		for _, r := range ended {
			if err := audit(ctx, q, a, "request.expire", r.ID, r.Name, ""); err != nil {
				return err
			}
		}
		_, err = q.SweepRequests(ctx, db.SweepRequestsParams{Age: request.Kept, Most: maxSwept})
		return err
	})
}
