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

// Numbers of failures in 15 minutes after which each further attempt must wait. The limit per address allows for many
// users behind one address. The limit per account stops guesses from many networks; it is high, so that an attacker
// elsewhere does not lock the user out. A browser that has signed in before has its own limit.
const (
	freeAttemptsPerAccountAndNetwork = 5
	freeAttemptsPerBrowser           = 10
	freeAttemptsPerAddress           = 20
	freeAttemptsPerAccount           = 100
)

// attemptLimit is a key by which failed password attempts are counted, with the number of free attempts.
type attemptLimit struct {
	key            string
	freeAttempts   int32
	clearOnSuccess bool // whether a success clears all failures instead of only this attempt
}

// attemptLimits are the limits that one attempt counts against. Every transaction locks their rows in this order.
type attemptLimits []attemptLimit

// signInLimits returns the limits of a sign-in. A known browser of the account has only its own limit.
func (p *Identity) signInLimits(ctx context.Context, name string, a fleet.Actor) (attemptLimits, error) {
	var checks fleet.Checks
	fleet.CheckUserName(&checks, "name", name)
	if possible := checks.Err() == nil; !possible {
		return clientAddressLimits(a), nil // no account can have this name, so the name needs no row
	}
	if a.Browser != "" {
		id, err := p.store.KnownBrowser(ctx, db.KnownBrowserParams{Name: name, Hash: auth.HashSecret(a.Browser)})
		if err == nil {
			return attemptLimits{{"browser:" + id, freeAttemptsPerBrowser, true}}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, store.UserError(err)
		}
	}
	at := attemptLimits{{"account:" + name, freeAttemptsPerAccount, false}}
	if a.Address != "" {
		at = append(at, attemptLimit{"account:" + name + " from " + neighbourSubnet(a.Address), freeAttemptsPerAccountAndNetwork, true})
	}
	return append(at, clientAddressLimits(a)...), nil
}

func clientAddressLimits(a fleet.Actor) attemptLimits {
	if a.Address == "" {
		return nil
	}
	return attemptLimits{{"address:" + singleClientNetwork(a.Address), freeAttemptsPerAddress, false}}
}

// neighbourSubnet returns the network of the address, an IPv4 /24 or an IPv6 /64, within which an attacker can easily
// change addresses.
func neighbourSubnet(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap().WithZone(""); !ip.Is4() {
		return singleClientNetwork(address)
	}
	return netip.PrefixFrom(ip, 24).Masked().String()
}

// singleClientNetwork returns the range of addresses that one client usually has: an IPv4 address or an IPv6 /64.
func singleClientNetwork(address string) string {
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

// countAttempt counts an attempt as failed before the password is verified. If a limit is reached, it returns TooMany
// with the waiting time.
func (p *Identity) countAttempt(ctx context.Context, at attemptLimits) error {
	return p.store.Tx(ctx, func(q *db.Queries) error {
		for _, b := range at {
			if err := countAgainstLimit(ctx, q, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func countAgainstLimit(ctx context.Context, q *db.Queries, b attemptLimit) error {
	_, err := q.TakeAttempt(ctx, db.TakeAttemptParams{Key: b.key, Free: b.freeAttempts})
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	seconds, err := q.AttemptWait(ctx, db.AttemptWaitParams{Key: b.key, Free: b.freeAttempts})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return fleet.Errorf(fleet.TooMany, "Too many failed attempts. Try again in %s.", formatWait(max(seconds, 1)))
}

// formatWait formats a waiting time, rounded up so that an attempt after it is accepted.
func formatWait(seconds int32) string {
	switch {
	case seconds == 1:
		return "a second"
	case seconds <= 60:
		return fmt.Sprintf("%d seconds", seconds)
	}
	return fmt.Sprintf("%d minutes", (seconds+59)/60)
}

// undoAttempt undoes countAttempt if the password could not be verified, for example because of a database error.
func (p *Identity) undoAttempt(ctx context.Context, at attemptLimits) error {
	return p.store.Tx(ctx, func(q *db.Queries) error {
		for _, b := range at {
			if err := q.GiveBackAttempt(ctx, b.key); err != nil {
				return err
			}
		}
		return nil
	})
}

// clearFailures clears the account's failures from this network or browser after a success. For the address, and for
// the account in all networks, it only removes this attempt. Otherwise an attacker with an own account could clear
// failures with other accounts, and a user's sign-in would clear an attacker's failures elsewhere.
func clearFailures(ctx context.Context, q *db.Queries, at attemptLimits) error {
	for _, b := range at {
		undo := q.GiveBackAttempt
		if b.clearOnSuccess {
			undo = q.ForgetAttempts
		}
		if err := undo(ctx, b.key); err != nil {
			return err
		}
	}
	return nil
}

// maxRememberedBrowsers is the maximum number of known browsers of an account. The least recently used one is deleted
// first.
const maxRememberedBrowsers = 20

// RememberBrowser stores the browser of a successful sign-in as known to the account. Failures of other clients do not
// lock a known browser out. It returns the secret that the browser presents next time. Only the system actor may call
// it.
func (p *Identity) RememberBrowser(ctx context.Context, a fleet.Actor, id fleet.UserID, secret string) (string, error) {
	if err := store.CheckSystemActor(a); err != nil {
		return "", err
	}
	err := p.store.Tx(ctx, func(q *db.Queries) error {
		seen, err := q.BrowserSeen(ctx, auth.HashSecret(secret))
		if err != nil {
			return err
		}
		if !seen { // a secret chosen by a client is not stored, because others may know it
			secret = auth.NewSecret("")
		}
		err = q.KnowBrowser(ctx, db.KnowBrowserParams{ID: fleet.NewID[string](), UserID: id, Hash: auth.HashSecret(secret)})
		if err != nil {
			return err
		}
		return q.TrimBrowsers(ctx, db.TrimBrowsersParams{UserID: id, Most: maxRememberedBrowsers})
	})
	return secret, err
}
