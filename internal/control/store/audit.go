package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// Audit writes who did what; call it inside the transaction of the change.
func Audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, subject fleet.Subject, name, detail string) error {
	return q.AddAudit(ctx, db.AddAuditParams{
		Actor: a.Name, UserID: UserIDOf(a), Address: a.Address, Action: action, Subject: string(subject), Name: name, Detail: detail,
	})
}
