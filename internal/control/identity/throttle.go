package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// How many failures in 15 minutes are free before each further attempt has to wait. Many people may share an address. A name
// alone is bounded far above what one network may try, so that nobody locks a person out from elsewhere; who guesses from many
// networks meets that bound, and browsers that the person has signed in with have one of their own.
const (
	freeByAccountHere = 5
	freeByBrowser     = 10
	freeByAddress     = 20
	freeByAccount     = 100
)

// bound is a key under which one try of a password counts.
type bound struct {
	key    string
	free   int32
	forget bool // a success wipes it out; otherwise it only gives the try back
}

// attempts are the bounds of one try. Every transaction takes their rows in this order.
type attempts []bound

// attemptsOf are the bounds of a sign-in. A browser that is known to the account answers for itself alone.
func (p *Identity) attemptsOf(ctx context.Context, name string, a fleet.Actor) (attempts, error) {
	var checks fleet.Checks
	fleet.CheckUserName(&checks, "name", name)
	if possible := checks.Err() == nil; !possible {
		return byAddress(a), nil // a name that no account can have needs no row of its own
	}
	if a.Browser != "" {
		id, err := p.store.KnownBrowser(ctx, db.KnownBrowserParams{Name: name, Hash: auth.HashSecret(a.Browser)})
		if err == nil {
			return attempts{{"browser:" + id, freeByBrowser, true}}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, store.Err(err)
		}
	}
	at := attempts{{"account:" + name, freeByAccount, false}}
	if a.Address != "" {
		at = append(at, bound{"account:" + name + " from " + neighbours(a.Address), freeByAccountHere, true})
	}
	return append(at, byAddress(a)...), nil
}

func byAddress(a fleet.Actor) attempts {
	if a.Address == "" {
		return nil
	}
	return attempts{{"address:" + network(a.Address), freeByAddress, false}}
}

// neighbours is the network in which an attacker easily gets another address: 24 bits of IPv4, 64 of IPv6.
func neighbours(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); !ip.Is4() {
		return network(address)
	}
	return netip.PrefixFrom(ip, 24).Masked().String()
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

// take counts the try as failed before it is made, or refuses with TooMany and how long to wait.
func (p *Identity) take(ctx context.Context, at attempts) error {
	return p.store.Tx(ctx, func(q *db.Queries) error {
		for _, b := range at {
			if err := takeOne(ctx, q, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func takeOne(ctx context.Context, q *db.Queries, b bound) error {
	_, err := q.TakeAttempt(ctx, db.TakeAttemptParams{Key: b.key, Free: b.free})
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	seconds, err := q.AttemptWait(ctx, db.AttemptWaitParams{Key: b.key, Free: b.free})
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
func (p *Identity) giveBack(ctx context.Context, at attempts) error {
	return p.store.Tx(ctx, func(q *db.Queries) error {
		for _, b := range at {
			if err := q.GiveBackAttempt(ctx, b.key); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgive forgets the failures of this account from here after a success. The address and the account itself only get their
// try back: whoever has one account must not be able to guess at others without end, nor a person who signs in wipe out what
// is tried elsewhere.
func forgive(ctx context.Context, q *db.Queries, at attempts) error {
	for _, b := range at {
		undo := q.GiveBackAttempt
		if b.forget {
			undo = q.ForgetAttempts
		}
		if err := undo(ctx, b.key); err != nil {
			return err
		}
	}
	return nil
}

// mostBrowsers are known of one account; of more, those are forgotten that were not used for longest.
const mostBrowsers = 20

// RememberBrowser makes the browser of a sign-in known to the account, so that wrong passwords from elsewhere do not lock it
// out, and returns the secret that it is to show at the next one: its own, where it came with one. Only the portal may call it.
func (p *Identity) RememberBrowser(ctx context.Context, a fleet.Actor, id fleet.UserID, secret string) (string, error) {
	if err := store.OnlySystem(a); err != nil {
		return "", err
	}
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		seen, err := q.BrowserSeen(ctx, auth.HashSecret(secret))
		if err != nil {
			return err
		}
		if !seen { // nobody makes the portal keep a secret that others may know
			secret = auth.NewSecret("")
		}
		err = q.KnowBrowser(ctx, db.KnowBrowserParams{ID: fleet.NewID[string](), UserID: id, Hash: auth.HashSecret(secret)})
		if err != nil {
			return err
		}
		return q.TrimBrowsers(ctx, db.TrimBrowsersParams{UserID: id, Most: mostBrowsers})
	})
	return secret, err
}
