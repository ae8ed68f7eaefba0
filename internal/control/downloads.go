package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/assign"
	"quantix/internal/control/storage"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
)

// Limits of concurrent volume downloads.
const (
	maxReadsOfUser = 4
	maxReadsOfHost = 8
)

// DownloadVolume asks a host to send a volume's file to this portal, and returns the person's end of the relay. The
// volume counts as in use until the transfer or the connection ends.
func (c *Control) DownloadVolume(ctx context.Context, a fleet.Actor, of storage.VolumeID) (end relay.End, host string, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return end, "", err
	}
	return c.downloadVolume(ctx, a, a, of)
}

// downloadVolume works like DownloadVolume but reads the pool as poolActor instead of a, the person. The caller has
// checked the person's permission.
func (c *Control) downloadVolume(ctx context.Context, poolActor, a fleet.Actor, of storage.VolumeID) (end relay.End, host string, err error) {
	if a.UserID == "" || a.Session == "" {
		return end, "", fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	v, err := c.VolumeOn(ctx, poolActor, of)
	if err != nil {
		return end, "", err
	}
	at, job := fleet.NewID[fleet.PairID](), fleet.NewID[fleet.JobID]()
	on, err := storage.ChooseVolumeHost(v, of.HostID)
	if err != nil {
		return end, "", err
	}
	err = assign.PoolType.ChangeObject(ctx, c.store, poolActor, string(of.PoolID), func(q *db.Queries, pool assign.AssignableObject) error {
		use, err := storage.CurrentVolumeUse(ctx, q, v)
		if err != nil {
			return err
		}
		if ok, why := use.Allows(fleet.ActDownload); !ok {
			return fleet.Errorf(fleet.Conflict, "%s: %s", of.Volume, why)
		}
		if err := q.LockTransfers(ctx, db.LockTransfersParams{UserID: string(a.UserID), HostID: string(on.ID)}); err != nil {
			return err
		}
		subject := fleet.SubjectVolume(fleet.Volref{PoolID: of.PoolID, Volume: of.Volume})
		if err := q.QueueVolumeRead(ctx, db.QueueVolumeReadParams{
			ID: job, HostID: on.ID, Subject: subject, Args: fleet.JobArgs{Pair: at, PortalURL: c.opts.PairURL, Volume: &fleet.VolumeParams{Source: of.Volume}},
		}); err != nil {
			return err
		}
		n, err := q.AwaitVolume(ctx, db.AwaitVolumeParams{
			PairID: at, JobID: string(job), UserID: a.UserID, Session: a.Session, HostID: on.ID, OfUser: maxReadsOfUser, OfHost: maxReadsOfHost,
		})
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.TooMany, "You have %d downloads in progress, or the host has %d. Wait until one has ended.", maxReadsOfUser, maxReadsOfHost)
		}
		if err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "volume.read", subject, of.Volume, fmt.Sprintf("in pool %s on %s: %s", pool.Name, on.Name, fleet.FormatBytes(v.AllocBytes)))
	})
	if err != nil {
		return end, "", err
	}
	end, err = agentapi.DownloadRelayTicket(at, a.UserID, a.Session, on.ID).Admit(relay.PartyOf(a))
	return end, on.Name, err
}

// AbandonRelay records that the person closed the connection before the host connected to a relay of DownloadVolume or
// ContinueUpload.
func (c *Control) AbandonRelay(ctx context.Context, a fleet.Actor, at fleet.PairID) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	return store.UserError(c.store.AbandonRelay(ctx, db.AbandonRelayParams{PairID: at, UserID: a.UserID}))
}
