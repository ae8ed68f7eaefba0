package store

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/fleet"
)

// Pass runs do in a transaction while no other portal runs the same pass.
func (s *Store) Pass(ctx context.Context, a fleet.Actor, name string, do func(q *db.Queries) error) error {
	if err := OnlySystem(a); err != nil {
		return err
	}
	err := s.Tx(ctx, func(q *db.Queries) error {
		mine, err := q.TryPassLock(ctx, name)
		if err != nil || !mine {
			return err
		}
		return do(q)
	})
	if err != nil {
		return fmt.Errorf("pass %s: %w", name, err)
	}
	return nil
}
