package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// Audit writes an audit entry. It must be called within the transaction of the change.
func Audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, subject fleet.Subject, name, detail string) error {
	return q.AddAudit(ctx, db.AddAuditParams{
		Actor: a.Name, UserID: ActorUserID(a), Address: a.Address, Action: action, Subject: string(subject), Name: name, Detail: detail,
	})
}
