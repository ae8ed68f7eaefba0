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

// ConsolePair is a console as both of its sides know it.
func ConsolePair(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Console, Parties: [2]relay.Party{
		relay.Asker: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// UploadPair is an upload's connection as both of its sides know it.
func UploadPair(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Upload, Parties: [2]relay.Party{
		relay.Asker: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// ReadPair is a volume's way to a person as both of its sides know it.
func ReadPair(id fleet.PairID, user fleet.UserID, session string, host fleet.HostID) relay.Ticket {
	return relay.Ticket{ID: id, Kind: relay.Download, Parties: [2]relay.Party{
		relay.Asker: {User: user, Session: session}, relay.Answerer: {Host: host},
	}}
}

// JoinPair lets a host in at its end of a pair: for a console, of a VM of its own whose browser came within the last 30 s; for an upload, of one
// of its own that somebody has continued since; for a transfer, of one of its own whose sender asked for it since; for a volume, of one that
// somebody waits for.
func (box *API) JoinPair(ctx context.Context, a fleet.Actor, id fleet.PairID) (relay.End, error) {
	if err := policy.Check(a, policy.AgentTalk, ""); err != nil {
		return relay.End{}, err
	}
	if err := store.CheckID(id, "connection"); err != nil {
		return relay.End{}, err
	}
	row, err := box.store.AwaitedConsole(ctx, db.AwaitedConsoleParams{ConsoleID: id, HostID: a.HostID, Session: hashSession(a)})
	switch {
	case err != nil:
		return relay.End{}, store.Err(err)
	case !row.Proven:
		return relay.End{}, sessionEnded()
	}
	if row.OfHost == "" {
		up, err := box.store.AwaitedUpload(ctx, db.AwaitedUploadParams{PairID: id, HostID: a.HostID})
		if err == nil {
			return UploadPair(id, up.UserID, up.Session, up.HostID).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.Err(err)
		}
		between, err := box.store.AwaitedTransfer(ctx, db.AwaitedTransferParams{PairID: string(id), HostID: string(a.HostID)})
		if err == nil {
			return TransferPair(id, between.FromHost, between.ToHost).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.Err(err)
		}
		read, err := box.store.AwaitedVolume(ctx, db.AwaitedVolumeParams{PairID: id, HostID: a.HostID})
		if err == nil {
			return ReadPair(id, read.UserID, read.Session, read.HostID).Admit(relay.PartyOf(a))
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return relay.End{}, store.Err(err)
		}
	}
	return ConsolePair(id, fleet.UserID(row.UserID), row.OfSession, fleet.HostID(row.OfHost)).Admit(relay.PartyOf(a))
}
