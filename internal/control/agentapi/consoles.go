package agentapi

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/relay"
)

// ConsoleRelayTicket returns the relay ticket of a console. It admits the user's session and the VM's host.
func ConsoleRelayTicket(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Console, Parties: [2]relay.Party{
		relay.Requester: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// UploadRelayTicket returns the relay ticket of an upload. It admits the user's session and the receiving host.
func UploadRelayTicket(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Upload, Parties: [2]relay.Party{
		relay.Requester: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// DownloadRelayTicket returns the relay ticket of a volume download. It admits the user's session and the sending host.
func DownloadRelayTicket(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Download, Parties: [2]relay.Party{
		relay.Requester: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// JoinRelay admits a host to its end of a relayed connection. It admits the VM's host for a console opened within the
// last 30 s, the receiving host of an upload that a user continues, the hosts of a transfer whose sender has requested
// the relay, and the sending host of a volume download.
func (api *API) JoinRelay(ctx context.Context, a fleet.Actor, id fleet.PairID) (relay.End, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return relay.End{}, err
	}
	if err := store.CheckID(id, "connection"); err != nil {
		return relay.End{}, err
	}
	row, err := api.store.AwaitedConsole(ctx, db.AwaitedConsoleParams{ConsoleID: id, HostID: a.HostID, Session: hashAgentSession(a)})
	switch {
	case err != nil:
		return relay.End{}, store.UserError(err)
	case !row.Proven:
		return relay.End{}, sessionEndedError()
	}
	if row.OfHost == "" {
		up, err := api.store.AwaitedUpload(ctx, db.AwaitedUploadParams{PairID: id, HostID: a.HostID})
		if err == nil {
			return UploadRelayTicket(id, up.UserID, up.Session, up.HostID).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.UserError(err)
		}
		between, err := api.store.AwaitedTransfer(ctx, db.AwaitedTransferParams{PairID: string(id), HostID: string(a.HostID)})
		if err == nil {
			return TransferRelayTicket(id, between.FromHost, between.ToHost).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.UserError(err)
		}
		read, err := api.store.AwaitedVolume(ctx, db.AwaitedVolumeParams{PairID: id, HostID: a.HostID})
		if err == nil {
			return DownloadRelayTicket(id, read.UserID, read.Session, read.HostID).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.UserError(err)
		}
	}
	return ConsoleRelayTicket(id, fleet.UserID(row.UserID), row.OfSession, fleet.HostID(row.OfHost)).Admit(relay.PartyOf(a))
}
