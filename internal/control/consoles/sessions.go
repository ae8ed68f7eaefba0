package consoles

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/console"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// beginSession stores a session. The first person at a console gets the keyboard, in all their sessions.
func beginSession(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.PairID, of target) error {
	if err := q.LockConsole(ctx, string(of.subject)); err != nil {
		return err
	}
	row := db.OpenConsoleSessionParams{
		ID: id, Subject: of.subject, Uuid: string(of.vm), ProjectID: string(of.project), VMName: of.name, Kind: console.VNC,
		UserID: string(a.UserID), UserName: a.Name, Session: a.Session, Address: a.Address,
	}
	if of.project == "" {
		row.HostID = string(of.host)
	} else {
		row.VMID = string(of.vm)
	}
	return q.OpenConsoleSession(ctx, row)
}

// Traffic are the bytes of a session.
type Traffic struct{ Sent, Shown int64 }

// ReportConsoleSession stores the traffic of an open session of the actor, and returns the session's state.
func (c *Consoles) ReportConsoleSession(ctx context.Context, a fleet.Actor, id fleet.PairID, t Traffic) (console.State, error) {
	if err := checkPerson(a, id); err != nil {
		return console.State{}, err
	}
	s, err := c.store.ReportConsoleSession(ctx, db.ReportConsoleSessionParams{ID: id, UserID: string(a.UserID), Sent: t.Sent, Shown: t.Shown})
	return console.State{Keyboard: s.Keyboard, Ended: s.Ended, EndedBy: s.EndedBy}, sessionError(err)
}

// CloseConsoleSession records the end of a session of the actor whose connection has ended. reason is a sentence; empty:
// the user left.
func (c *Consoles) CloseConsoleSession(ctx context.Context, a fleet.Actor, id fleet.PairID, t Traffic, reason string) error {
	if err := checkPerson(a, id); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		s, err := lockSession(ctx, q, id)
		if err == nil && !isOwn(a, s.UserID) {
			err = pgx.ErrNoRows
		}
		switch {
		case err != nil:
			return sessionError(err)
		case s.Ended:
			return q.CountConsoleSession(ctx, db.CountConsoleSessionParams{ID: id, Sent: t.Sent, Shown: t.Shown})
		}
		return endSession(ctx, q, db.EndConsoleSessionParams{ID: id, EndReason: reason, Sent: t.Sent, Shown: t.Shown})
	})
}

// checkPerson refuses actors who are no user, and malformed IDs. It needs no further permission: what a portal records of
// a session must not depend on what its user may do now.
func checkPerson(a fleet.Actor, id fleet.PairID) error {
	if err := policy.Check(a, policy.OwnAccount, ""); err != nil {
		return err
	}
	return store.CheckID(id, "console session")
}

func sessionError(err error) error { return store.NotFoundError(err, "console session") }

// endSession ends a locked session, and passes its keyboard on.
func endSession(ctx context.Context, q *db.Queries, end db.EndConsoleSessionParams) error {
	subject, err := q.EndConsoleSession(ctx, end)
	if err != nil {
		return err
	}
	return q.PassKeyboard(ctx, subject)
}

// lockSession reads a session after it has locked its console.
func lockSession(ctx context.Context, q *db.Queries, id fleet.PairID) (db.GetConsoleSessionRow, error) {
	s, err := q.GetConsoleSession(ctx, id)
	if err == nil {
		err = q.LockConsole(ctx, string(s.Subject))
	}
	if err != nil {
		return s, err
	}
	return q.GetConsoleSession(ctx, id)
}

// mayControl reports whether the actor may end other people's sessions of the VM and take the keyboard.
func mayControl(a fleet.Actor, s db.GetConsoleSessionRow) bool {
	return policy.May(a, console.ControlPermission(fleet.ProjectID(s.ProjectID)), fleet.ProjectID(s.ProjectID))
}

func isOwn(a fleet.Actor, userID string) bool { return a.UserID != "" && string(a.UserID) == userID }

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, s db.GetConsoleSessionRow, detail string) error {
	return store.Audit(ctx, q, a, action, s.Subject, s.VMName, detail)
}

// EndConsoleSession ends a session of the actor, or of another user if the actor may change the VM. The portal that
// holds the connection closes it, and its user reads who ended it.
func (c *Consoles) EndConsoleSession(ctx context.Context, a fleet.Actor, id fleet.PairID) error {
	return c.change(ctx, a, id, func(q *db.Queries, s db.GetConsoleSessionRow) error {
		if !isOwn(a, s.UserID) && !mayControl(a, s) {
			return fleet.Errorf(fleet.Forbidden, "You can end only your own sessions. To end those of others, you need permission to change the VM.")
		}
		if err := audit(ctx, q, a, "console.end", s, "of "+s.UserName); err != nil {
			return err
		}
		return endSession(ctx, q, db.EndConsoleSessionParams{ID: id, EndedBy: a.Name, EndReason: "Ended by " + a.Name + "."})
	})
}

// AskForKeyboard asks, for a session of the actor, the user who has the keyboard.
func (c *Consoles) AskForKeyboard(ctx context.Context, a fleet.Actor, id fleet.PairID) error {
	return c.change(ctx, a, id, func(q *db.Queries, s db.GetConsoleSessionRow) error {
		if !isOwn(a, s.UserID) {
			return fleet.Errorf(fleet.Forbidden, "You can ask for the keyboard only for a session of your own.")
		}
		asked, err := q.AskForKeyboard(ctx, id)
		if err != nil || asked == 0 { // has asked already, or has the keyboard
			return err
		}
		return audit(ctx, q, a, "console.ask", s, "")
	})
}

// GiveKeyboard gives the keyboard of a console to the session's user. The user who has it may hand it over, and who may
// change the VM may take it.
func (c *Consoles) GiveKeyboard(ctx context.Context, a fleet.Actor, id fleet.PairID) error {
	return c.change(ctx, a, id, func(q *db.Queries, s db.GetConsoleSessionRow) error {
		if s.Keyboard {
			return nil
		}
		holder, err := q.KeyboardHolder(ctx, s.Subject)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case !isOwn(a, holder.UserID) && !mayControl(a, s):
			return fleet.Errorf(fleet.Forbidden, "%s has the keyboard. Ask for it, or ask somebody who may change the VM.", holder.UserName)
		}
		if err := q.GrantKeyboard(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "console.keyboard", s, "to "+s.UserName)
	})
}

// change runs do with a locked, open session that the actor may see.
func (c *Consoles) change(ctx context.Context, a fleet.Actor, id fleet.PairID, do func(*db.Queries, db.GetConsoleSessionRow) error) error {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "console session"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		s, err := lockSession(ctx, q, id)
		if project := fleet.ProjectID(s.ProjectID); err == nil && !policy.May(a, console.SeePermission(project), project) {
			err = pgx.ErrNoRows
		}
		if err != nil {
			return sessionError(err)
		}
		if s.Ended {
			return fleet.Errorf(fleet.Conflict, "The session of %s has ended.", s.UserName)
		}
		return do(q, s)
	})
}

// Limits of one pass: consoles whose lost sessions are ended, and old sessions that are deleted.
const (
	maxLostConsoles  = 100
	maxSweptSessions = 1000
)

// EndLostConsoleSessions ends the sessions that no portal reports any more, and deletes old ones.
func (c *Consoles) EndLostConsoleSessions(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "lost console sessions", func(q *db.Queries) error {
		lost, err := q.ConsolesWithLostSessions(ctx, db.ConsolesWithLostSessionsParams{Age: console.LostAfter, Most: maxLostConsoles})
		if err != nil {
			return err
		}
		for _, subject := range lost {
			if err := q.LockConsole(ctx, string(subject)); err != nil {
				return err
			}
			if err := q.EndLostConsoleSessions(ctx, db.EndLostConsoleSessionsParams{Subject: subject, Age: console.LostAfter}); err != nil {
				return err
			}
			if err := q.PassKeyboard(ctx, subject); err != nil {
				return err
			}
		}
		_, err = q.SweepConsoleSessions(ctx, db.SweepConsoleSessionsParams{Age: console.Kept, Most: maxSweptSessions})
		return err
	})
}
