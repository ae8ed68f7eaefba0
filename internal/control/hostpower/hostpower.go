// Package hostpower has the use cases of hosts' BMCs: their settings, the passes that read them and switch power through
// them, and the termination of hosts.
package hostpower

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/bmc"
	"quantix/internal/bmc/redfish"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// HostPower has the use cases of hosts' power through BMCs. Its exported methods are use cases of control.Control.
type HostPower struct {
	store     *store.Store
	vault     auth.Vault // encrypts the passwords of BMCs
	connector *redfish.Connector
	hosts     Hosts
}

// Hosts are the use cases of control.Control that a termination consists of. They run in the transaction of ctx.
type Hosts interface {
	PlanMaintenance(ctx context.Context, a fleet.Actor, id fleet.HostID, overcommit bool) (maintenance.Plan, error)
	// DrainHost is EnterMaintenance with a decision about each VM.
	DrainHost(ctx context.Context, a fleet.Actor, id fleet.HostID, decisions map[fleet.VMID]fleet.MaintenanceDecision, overcommit bool) (fleet.Task, error)
	// ShutDownHost queues the power-off by the host's agent as the given task.
	ShutDownHost(ctx context.Context, a fleet.Actor, host fleet.HostView, task fleet.TaskID) error
	DeleteHost(ctx context.Context, a fleet.Actor, id fleet.HostID) error
}

// New returns the HostPower of the store; connector nil: one without further allowed networks.
func New(s *store.Store, v auth.Vault, c *redfish.Connector, h Hosts) *HostPower {
	if c == nil {
		c = redfish.New(nil)
	}
	return &HostPower{s, v, c, h}
}

// credentials is the encrypted part of a BMC's settings.
type credentials struct {
	Password string `json:"password"`
}

func label(id fleet.HostID) string { return "BMC of host " + string(id) }

func (hp *HostPower) open(id fleet.HostID, spec bmc.Spec, key string, sealed []byte) (redfish.Target, error) {
	var c credentials
	err := store.OpenJSON(hp.vault, label(id), "password of the BMC", key, sealed, &c)
	return redfish.Target{Spec: spec, Password: c.Password}, err
}

// BMCInput is the input for the BMC of a host.
type BMCInput struct {
	bmc.Spec
	Password     string `json:"password,omitempty" doc:"Empty: keep the stored one. It must be given with a new address or another way to trust the BMC"`
	IfGeneration int64  `json:"ifGeneration,omitempty" doc:"Expected generation; 0: not checked"`
}

// changeHost locks the host and calls do with it in the same transaction.
func (hp *HostPower) changeHost(ctx context.Context, a fleet.Actor, id fleet.HostID, do func(*db.Queries, fleet.HostView) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return err
	}
	return hp.store.Tx(ctx, func(q *db.Queries) error {
		host, err := lockHost(ctx, q, id)
		if err != nil {
			return err
		}
		return do(q, host)
	})
}

func lockHost(ctx context.Context, q *db.Queries, id fleet.HostID) (fleet.HostView, error) {
	if _, err := q.LockHost(ctx, id); err != nil {
		return fleet.HostView{}, store.NotFoundError(err, "host")
	}
	row, err := q.GetHost(ctx, id)
	return store.HostViewFromRow(row), err
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, host fleet.HostView, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectHost(host.ID), host.Name, detail)
}

// SetBMC sets the BMC of a host. The portal connects to it in the background.
func (hp *HostPower) SetBMC(ctx context.Context, a fleet.Actor, id fleet.HostID, in BMCInput) (bmc.BMC, error) {
	err := hp.changeHost(ctx, a, id, func(q *db.Queries, host fleet.HostView) error {
		in.Spec = in.Normalize()
		var checks fleet.Checks
		in.Check(&checks)
		if in.Password != "" || !host.HasBMC {
			bmc.CheckPassword(&checks, in.Password)
		}
		if err := hp.connector.CheckAddress(in.Spec); err != nil {
			checks.Add("address", "%s", err.Error())
		}
		if err := checks.Err(); err != nil {
			return err
		}
		changed := []string{"address " + in.Address, "user " + in.User}
		if host.HasBMC {
			row, err := q.LockBMC(ctx, id)
			if err != nil {
				return err
			}
			if in.IfGeneration != 0 && in.IfGeneration != row.Generation {
				return store.ChangedMeanwhileError("BMC", row.Generation, in.IfGeneration)
			}
			if err := checkNoOrder(ctx, q, host); err != nil {
				return err
			}
			if in.Password == "" {
				if err := hp.keepPassword(&in, row); err != nil {
					return err
				}
				changed = append(changed, "password kept")
			}
		}
		key, sealed, err := store.SealJSON(hp.vault, label(id), "passwords of BMCs", credentials{in.Password})
		if err != nil {
			return err
		}
		if err := q.PutBMC(ctx, db.PutBMCParams{HostID: id, Spec: in.Spec, ByKey: key, Sealed: sealed}); err != nil {
			return err
		}
		if err := q.MarkBMC(ctx, db.MarkBMCParams{ID: id, HasBmc: true}); err != nil {
			return err
		}
		return store.FirstErrorOf(audit(ctx, q, a, "host.bmc.set", host, strings.Join(append(changed, trustText(in.Spec)), ", ")), func() error { return wake(ctx, q, id) })
	})
	if err != nil {
		return bmc.BMC{}, err
	}
	return hp.GetBMC(ctx, a, id)
}

func trustText(s bmc.Spec) string {
	switch {
	case s.Trust == bmc.TrustCA:
		return "trusts an authority"
	case s.Fingerprint == "":
		return "pins the certificate of the first connection"
	}
	return "pinned certificate " + s.Fingerprint
}

// keepPassword fills in the stored password, unless it would be sent to another machine than the one for which a user
// entered it.
func (hp *HostPower) keepPassword(in *BMCInput, row db.HostBmc) error {
	var checks fleet.Checks
	if in.Address != row.Spec.Address || in.Trust != row.Spec.Trust || in.CA != row.Spec.CA || in.Fingerprint != row.Spec.Fingerprint {
		checks.Add("password", "Enter the password again, because it will be sent to another address or certificate.")
		return checks.Err()
	}
	had, err := hp.open(row.HostID, row.Spec, row.ByKey, row.Sealed)
	in.Password = had.Password
	return err
}

// wake lets portals and pages notice a change of the host's BMC.
func wake(ctx context.Context, q *db.Queries, id fleet.HostID) error {
	return store.FirstErrorOf(q.WakeBMCs(ctx), func() error { return q.AnnounceHost(ctx, string(id)) })
}

func checkNoOrder(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	command, err := q.OpenPowerOrder(ctx, host.ID)
	if err == nil && command != "" {
		err = fleet.Errorf(fleet.Conflict, "A power task of %s has not ended. Wait until it has, or cancel it.", host.Name)
	}
	return err
}

// DeleteBMC removes the BMC of a host from Quantix. The BMC does not change.
func (hp *HostPower) DeleteBMC(ctx context.Context, a fleet.Actor, id fleet.HostID) error {
	return hp.changeHost(ctx, a, id, func(q *db.Queries, host fleet.HostView) error {
		if !host.HasBMC {
			return noBMC(host.Name)
		}
		if err := checkNoOrder(ctx, q, host); err != nil {
			return err
		}
		if err := q.DeleteBMC(ctx, id); err != nil {
			return err
		}
		if err := q.MarkBMC(ctx, db.MarkBMCParams{ID: id}); err != nil {
			return err
		}
		return store.FirstErrorOf(audit(ctx, q, a, "host.bmc.delete", host, ""), func() error { return q.AnnounceHost(ctx, string(id)) })
	})
}

func noBMC(host string) error { return fleet.Errorf(fleet.NotFound, "%s has no BMC.", host) }

// TestBMC requests a check of the BMC's address, certificate and credentials. The result is part of GetBMC.
func (hp *HostPower) TestBMC(ctx context.Context, a fleet.Actor, id fleet.HostID) (bmc.BMC, error) {
	err := hp.changeHost(ctx, a, id, func(q *db.Queries, host fleet.HostView) error {
		if !host.HasBMC {
			return noBMC(host.Name)
		}
		if err := q.AskBMC(ctx, id); err != nil {
			return err
		}
		return store.FirstErrorOf(audit(ctx, q, a, "host.bmc.test", host, ""), func() error { return wake(ctx, q, id) })
	})
	if err != nil {
		return bmc.BMC{}, err
	}
	return hp.GetBMC(ctx, a, id)
}

// GetBMC returns the BMC of a host without its password.
func (hp *HostPower) GetBMC(ctx context.Context, a fleet.Actor, id fleet.HostID) (bmc.BMC, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return bmc.BMC{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return bmc.BMC{}, err
	}
	row, err := hp.store.GetBMC(ctx, id)
	if err != nil {
		return bmc.BMC{}, store.NotFoundError(err, "BMC")
	}
	b := row.HostBmc
	out := bmc.BMC{
		HostID: id, Spec: b.Spec, Generation: b.Generation, Reading: b.Reading, ReadAt: b.ReadAt, Power: bmc.PowerAt(b.Reading, b.ReadAt, row.Now), Error: b.Error, CheckedAt: b.CheckedAt,
		Checking: b.AskedAt != nil && (b.CheckedAt == nil || b.CheckedAt.Before(*b.AskedAt)),
	}
	out.OtherMachine = b.Reading != nil && !bmc.SameMachine(b.Reading.UUID, row.HostUuid)
	return out, nil
}
