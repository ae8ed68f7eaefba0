package control

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

var machineForm = regexp.MustCompile(`^[0-9a-f-]{0,36}$`)

// JoinHost makes the machine that shows a join token a host and gives it its first certificate. a is anonymous and carries
// the remote address. Unknown, used, revoked and expired tokens are refused alike (Unauthorized). Any other refusal leaves
// the token unused: a name that is taken, or a machine that is a host already (Conflict), or a faulty request (Invalid).
func (c *Control) JoinHost(ctx context.Context, a fleet.Actor, secret string, req wire.JoinRequest) (wire.JoinAnswer, error) {
	hash := auth.HashSecret(secret)
	lives, err := c.q.JoinTokenLives(ctx, hash)
	if err != nil {
		return wire.JoinAnswer{}, dbError(err)
	}
	if !lives {
		return wire.JoinAnswer{}, badJoinToken()
	}
	req.HostUUID = strings.ToLower(req.HostUUID)
	if err := checkJoin(req); err != nil {
		return wire.JoinAnswer{}, err
	}
	authority, err := c.authority(ctx)
	if err != nil {
		return wire.JoinAnswer{}, err
	}
	answer := wire.JoinAnswer{HostID: fleet.NewID[fleet.HostID]()}
	answer.CA = authority.CertPEM()
	if answer.Cert, err = authority.IssueHost(answer.HostID, req.CSR); err != nil {
		return wire.JoinAnswer{}, err
	}
	if err := c.tx(ctx, func(q *db.Queries) error { return addHost(ctx, q, a, hash, answer.HostID, req) }); err != nil {
		return wire.JoinAnswer{}, err
	}
	return answer, nil
}

func addHost(ctx context.Context, q *db.Queries, a fleet.Actor, hash []byte, id fleet.HostID, req wire.JoinRequest) error {
	token, err := q.UseJoinToken(ctx, db.UseJoinTokenParams{Hash: hash, UsedBy: req.Name})
	if errors.Is(err, pgx.ErrNoRows) {
		return badJoinToken()
	}
	if err != nil {
		return err
	}
	switch name, err := q.HostOfMachine(ctx, req.HostUUID); {
	case err == nil:
		return fleet.Errorf(fleet.Conflict, "This machine (UUID %s) has joined already as host %q. Delete that host first, "+
			"or give libvirt on this machine a host_uuid of its own.", req.HostUUID, name)
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	if err := q.AddHost(ctx, db.AddHostParams{ID: id, Name: req.Name, Machine: req.HostUUID}); err != nil {
		return err
	}
	if err := q.AddHostSession(ctx, id); err != nil {
		return err
	}
	host := fleet.Actor{HostID: id, Name: "host " + req.Name, Address: a.Address}
	return audit(ctx, q, host, "host.join", hostSubject(id), req.Name, "with the join token of "+token.CreatedBy)
}

func checkJoin(req wire.JoinRequest) error {
	var c fleet.Checks
	fleet.CheckName(&c, "name", req.Name)
	if !machineForm.MatchString(req.HostUUID) {
		c.Add("hostUuid", "The machine's UUID has 36 hexadecimal digits and hyphens.")
	}
	auth.CheckCSR(&c, req.CSR)
	return c.Err()
}

func badJoinToken() error {
	return fleet.Errorf(fleet.Unauthorized, "This join token is not valid: it works once, for 15 minutes. Make a new one under Hosts, Add host.")
}

func hostSubject(id fleet.HostID) fleet.Subject { return fleet.Subject("host:" + string(id)) }
