package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/fleet"
)

// FirstError is err, or what next says where there is none.
func FirstError(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// Err turns what PostgreSQL says into a refusal where people caused it, and an unreachable server into Unavailable.
func Err(err error) error {
	var pg *pgconn.PgError
	var refused *fleet.Error
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, pgx.ErrNoRows), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		if text, ok := constraintTexts[pg.ConstraintName]; ok {
			return fleet.Errorf(fleet.Conflict, "%s", text)
		}
		if pg.Code == "22021" || pg.Code == "22P05" {
			return fleet.Errorf(fleet.Malformed, "Text must be UTF-8 without NUL characters.")
		}
		if pg.Code[:2] == "53" {
			text := cmp.Or(resourceTexts[pg.Code], "The database has not the resources for this. VMs keep running; try again in a moment.")
			return fmt.Errorf("%w (%w)", fleet.Errorf(fleet.Unavailable, "%s", text), err)
		}
		// Shutting down, connection; and a server that has become a standby.
		if pg.Code[:2] == "57" || pg.Code[:2] == "08" || pg.Code == db.ReadOnly {
			return Unavailable(err)
		}
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return Unavailable(err)
	}
	if lost(err) {
		return Unavailable(err)
	}
	return err
}

// lost reports whether the connection to the server broke, or none could be made: refused, reset in the middle of an answer,
// cut off, closed or timed out.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// Unavailable is the refusal for a database that does not answer, with why.
func Unavailable(err error) error {
	return fmt.Errorf("%w (%w)", fleet.Errorf(fleet.Unavailable, "The database does not answer. VMs keep running; try again in a moment."), err)
}

// resourceTexts are the sentences for what PostgreSQL's server ran out of (class 53).
var resourceTexts = map[string]string{
	db.DiskFull: "The disk of the portal's PostgreSQL is full, so nothing can be changed. VMs keep running; an administrator must make room on that disk.",
	"53200":     "The portal's PostgreSQL is out of memory. VMs keep running; try again in a moment.",
	"53300":     "The portal's PostgreSQL has no connection left. VMs keep running; try again in a moment, or raise its max_connections.",
	"53400":     "A limit in the configuration of the portal's PostgreSQL is reached. VMs keep running; an administrator must raise it.",
}

// constraintTexts are the sentences for constraints that people's input can break.
var constraintTexts = map[string]string{
	"mac_taken":                 "Another VM got the MAC address of one of the network cards meanwhile. Leave it out to get a free one.",
	"user_name_taken":           "A user with this name exists already. Choose another name.",
	"project_name_taken":        "A project with this name exists already. Choose another name.",
	"vm_name_taken":             "A VM with this name exists in the project already. Choose another name.",
	"pool_name_taken":           "A pool with this name exists already. Choose another name.",
	"network_name_taken":        "A network with this name exists already, or was found on a host a moment ago. Choose another name.",
	"host_name_taken":           "A host with this name has joined already. Give the new host another name.",
	"vms_host_id_fkey":          "The host was removed a moment ago. Choose another one.",
	"security_group_name_taken": "A security group with this name exists already. Choose another name.",
	"host_machine_taken":        "This machine has joined already under another name. Delete that host first.",
}

// NotFound turns "no rows" into a refusal that reads alike for what does not exist and what may not be seen.
func NotFound(err error, noun string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "There is no such %s.", noun)
	}
	return Err(err)
}

// NoProject makes the refusal of a project that may not be seen read like that of one that does not exist.
func NoProject(err error) error {
	if fleet.CodeOf(err) == fleet.NotFound {
		return fleet.Errorf(fleet.NotFound, "There is no such project.")
	}
	return err
}

// CheckID refuses what can be no identifier in the words for a thing that does not exist, before the database is asked.
func CheckID[T ~string](id T, noun string) error {
	if !fleet.IsID(string(id)) {
		return NotFound(pgx.ErrNoRows, noun)
	}
	return nil
}

// Recovered is to be deferred: it makes a panic the error where no request is there to take it, which would end the portal.
func Recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}
