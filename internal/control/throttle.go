package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
)

// How many failures in 15 minutes are free before each further attempt has to wait. Many people may share an address.
const (
	freeByAccount = 5
	freeByAddress = 20
)

// attempts are the keys under which one try of a password counts; an empty one does not count.
type attempts struct{ account, address string }

func attemptsOf(name, address string) attempts {
	var at attempts
	var c fleet.Checks
	// A name that no account can have needs no row of its own.
	if fleet.CheckUserName(&c, "name", name); c.Err() == nil {
		at.account = "account:" + name
	}
	if address != "" {
		at.address = "address:" + network(address)
	}
	return at
}

// network is what one attacker can easily hold: an IPv4 address, or an IPv6 network of 64 bits.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}

// take counts the try as failed before it is made, or refuses with TooMany and how long to wait. Every transaction takes
// the account's row before the address's.
func (c *Control) take(ctx context.Context, at attempts) error {
	return c.tx(ctx, func(q *db.Queries) error {
		if err := takeOne(ctx, q, at.account, freeByAccount); err != nil {
			return err
		}
		return takeOne(ctx, q, at.address, freeByAddress)
	})
}

func takeOne(ctx context.Context, q *db.Queries, key string, free int32) error {
	if key == "" {
		return nil
	}
	_, err := q.TakeAttempt(ctx, db.TakeAttemptParams{Key: key, Free: free})
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	seconds, err := q.AttemptWait(ctx, db.AttemptWaitParams{Key: key, Free: free})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return fleet.Errorf(fleet.TooMany, "Too many failed attempts. Try again in %s.", waitWords(max(seconds, 1)))
}

// waitWords rounds up, so that who waits as told is let through.
func waitWords(seconds int32) string {
	switch {
	case seconds == 1:
		return "a second"
	case seconds <= 60:
		return fmt.Sprintf("%d seconds", seconds)
	}
	return fmt.Sprintf("%d minutes", (seconds+59)/60)
}

// giveBack undoes take after a try that was never judged.
func (c *Control) giveBack(ctx context.Context, at attempts) error {
	return c.tx(ctx, func(q *db.Queries) error {
		if err := q.GiveBackAttempt(ctx, at.account); err != nil {
			return err
		}
		return q.GiveBackAttempt(ctx, at.address)
	})
}

// forgive forgets the account's failures after a success. The address only gets its try back: whoever has one account must
// not be able to guess at others without end.
func forgive(ctx context.Context, q *db.Queries, at attempts) error {
	if err := q.ForgetAttempts(ctx, at.account); err != nil {
		return err
	}
	return q.GiveBackAttempt(ctx, at.address)
}
