package agentapi

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

var machineUUIDPattern = regexp.MustCompile(`^[0-9a-f-]{0,36}$`)

// JoinHost registers a machine as a host with a join token and issues its first certificate. A token of an existing
// host rejoins that host and keeps its VMs; the previous agent loses access. a is anonymous and carries the remote
// address.
//
// Unknown, used, revoked and expired tokens all return Unauthorized. Other errors leave the token unused: Conflict for
// a name, machine or agent that belongs to another host, Invalid for a malformed request.
func (api *API) JoinHost(ctx context.Context, a fleet.Actor, secret string, req wire.JoinRequest) (wire.JoinAnswer, error) {
	hash := auth.HashSecret(secret)
	again, err := api.store.LiveJoinToken(ctx, hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.JoinAnswer{}, badJoinTokenError()
	}
	if err != nil {
		return wire.JoinAnswer{}, store.UserError(err)
	}
	req.HostUUID = strings.ToLower(req.HostUUID)
	if err := checkJoinRequest(req); err != nil {
		return wire.JoinAnswer{}, err
	}
	authority, err := api.loadAuthority(ctx)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	key, err := auth.CSRKeyHash(req.CSR)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	answer := wire.JoinAnswer{HostID: fleet.NewID[fleet.HostID](), Name: req.Name}
	if again != nil {
		answer.HostID = *again
	}
	answer.CA = authority.CertPEM()
	if answer.Cert, err = authority.IssueHost(answer.HostID, req.CSR); err != nil {
		return wire.JoinAnswer{}, err
	}
	add := addHost
	if again != nil {
		add = rejoinHost
	}
	err = api.store.Tx(ctx, func(q *db.Queries) error {
		if err := checkNotOtherHostsMachine(ctx, q, answer.HostID, req); err != nil {
			return err
		}
		var err error
		if answer.Name, err = add(ctx, q, answer.HostID, req, key); err != nil {
			return err
		}
		token, err := q.UseJoinToken(ctx, db.UseJoinTokenParams{Hash: hash, UsedBy: answer.Name})
		if errors.Is(err, pgx.ErrNoRows) {
			return badJoinTokenError()
		}
		if err != nil {
			return err
		}
		host := fleet.Actor{HostID: answer.HostID, Name: "host " + answer.Name, Address: a.Address}
		return store.Audit(ctx, q, host, "host.join", hostSubject(answer.HostID), answer.Name, "with the join token of "+token.CreatedBy)
	})
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	return answer, nil
}

// checkNotOtherHostsMachine returns a conflict if the machine or agent belongs to a host other than id.
func checkNotOtherHostsMachine(ctx context.Context, q *db.Queries, id fleet.HostID, req wire.JoinRequest) error {
	const hint = `To bring its agent back, open that host, choose "Join again" and paste that command.`
	switch other, err := q.HostOfMachine(ctx, req.HostUUID); {
	case err == nil && other.ID != id:
		return fleet.Errorf(fleet.Conflict, "This machine (UUID %s) has joined already as host %q. %s If this is a different machine, set "+
			"a unique host_uuid in libvirtd.conf.", req.HostUUID, other.Name, hint)
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	if req.HostID == "" || req.HostID == id {
		return nil
	}
	name, err := q.HostName(ctx, req.HostID)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // the host with this agent was removed, so the agent may join as a new host
	}
	if err != nil {
		return err
	}
	return fleet.Errorf(fleet.Conflict, "The agent on this machine belongs to host %q. %s", name, hint)
}

func addHost(ctx context.Context, q *db.Queries, id fleet.HostID, req wire.JoinRequest, key []byte) (name string, err error) {
	if err := q.AddHost(ctx, db.AddHostParams{ID: id, Name: req.Name, Machine: req.HostUUID, KeyHash: key}); err != nil {
		return "", err
	}
	return req.Name, q.AddHostSession(ctx, id)
}

func rejoinHost(ctx context.Context, q *db.Queries, id fleet.HostID, req wire.JoinRequest, key []byte) (name string, err error) {
	if name, err = q.RejoinHost(ctx, db.RejoinHostParams{ID: id, Machine: req.HostUUID, KeyHash: key}); err != nil {
		return "", store.NotFoundError(err, "host")
	}
	if err := q.EndHostSession(ctx, id); err != nil {
		return "", err
	}
	return name, q.AnnounceHost(ctx, string(id))
}

func checkJoinRequest(req wire.JoinRequest) error {
	var c fleet.Checks
	fleet.CheckName(&c, "name", req.Name)
	if req.HostID != "" && !fleet.IsID(string(req.HostID)) {
		c.Add("hostId", "This is no host's id.")
	}
	if !machineUUIDPattern.MatchString(req.HostUUID) {
		c.Add("hostUuid", "The machine's UUID has 36 hexadecimal digits and hyphens.")
	}
	auth.CheckCSR(&c, req.CSR)
	return c.Err()
}

func badJoinTokenError() error {
	return fleet.Errorf(fleet.Unauthorized, "This join token is not valid: it works once, for 15 minutes. Make a new one under Hosts, Add host.")
}

func hostSubject(id fleet.HostID) fleet.Subject { return fleet.Subject("host:" + string(id)) }
