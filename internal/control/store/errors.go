package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/quota"
)

// FirstErrorOf returns err, or the result of next if err is nil.
func FirstErrorOf(err error, next func() error) error {
	if err != nil {
		return err
	}
	return next()
}

// ChangedMeanwhileError returns the Conflict for a change that expects generation had of an object, whose generation is
// now another.
func ChangedMeanwhileError(resource string, now, had int64) error {
	return fleet.Errorf(fleet.Conflict, "Somebody changed this %s meanwhile (generation %d, you had %d). Reload and try again.", resource, now, had)
}

// NameTakenError returns the refusal of a name if err is a violation of the unique constraint, and otherwise err. The
// refusal is also the error of the field "name".
func NameTakenError(err error, constraint, format string, args ...any) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.ConstraintName != constraint {
		return err
	}
	text := fmt.Sprintf(format, args...)
	return &fleet.Error{Code: fleet.Conflict, Message: text, Fields: []fleet.FieldError{{Field: "name", Message: text}}}
}

// UserError maps PostgreSQL errors to errors for users: constraint violations to Conflict, an unreachable or overloaded
// server to Unavailable. Other errors are returned unchanged.
func UserError(err error) error {
	var pg *pgconn.PgError
	var refused *fleet.Error
	switch {
	case err == nil, errors.As(err, &refused), errors.Is(err, pgx.ErrNoRows), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		if text, ok := constraintErrorTexts[pg.ConstraintName]; ok {
			return fleet.RefusalError(text)
		}
		if pg.Code == db.SQLStateQuota {
			return quotaError(pg)
		}
		if pg.Code == "22021" || pg.Code == "22P05" {
			return fleet.Errorf(fleet.Malformed, "Text must be UTF-8 without NUL characters.")
		}
		if pg.Code[:2] == "53" {
			text := cmp.Or(resourceErrorTexts[pg.Code], "The database lacks resources for this request. VMs keep running; try again in a moment.")
			return fmt.Errorf("%w (%w)", fleet.Errorf(fleet.Unavailable, "%s", text), err)
		}
		// SQLSTATE class 57 means a shutdown, and class 08 a failed connection. A read-only server has become a standby.
		if pg.Code[:2] == "57" || pg.Code[:2] == "08" || pg.Code == db.SQLStateReadOnly {
			return UnavailableError(err)
		}
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return UnavailableError(err)
	}
	if isConnectionLost(err) {
		return UnavailableError(err)
	}
	return err
}

// quotaError returns the refusal of a request that exceeds the project's quota: see quota_excess.
func quotaError(pg *pgconn.PgError) error {
	var over []quota.Excess
	if err := json.Unmarshal([]byte(pg.Detail), &over); err != nil || len(over) == 0 {
		return pg
	}
	return quota.Error(over)
}

// isConnectionLost reports whether the connection to the server failed or broke: refused, reset, closed or timed out.
func isConnectionLost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// UnavailableError returns the error for a database that does not answer, wrapping err.
func UnavailableError(err error) error {
	return fmt.Errorf("%w (%w)", fleet.Errorf(fleet.Unavailable, "The database does not answer. VMs keep running; try again in a moment."), err)
}

// resourceErrorTexts are error texts for exhausted resources of the PostgreSQL server (class 53).
var resourceErrorTexts = map[string]string{
	db.SQLStateDiskFull: "The disk of the portal's PostgreSQL is full, so nothing can be changed. VMs keep running; an administrator must make room on that disk.",
	"53200":             "The portal's PostgreSQL is out of memory. VMs keep running; try again in a moment.",
	"53300":             "The portal's PostgreSQL has no connection left. VMs keep running; try again in a moment, or raise its max_connections.",
	"53400":             "A limit in the configuration of the portal's PostgreSQL is reached. VMs keep running; an administrator must raise it.",
}

// constraintErrorTexts are error texts for constraints that user input can violate.
var constraintErrorTexts = map[string]string{
	"mac_taken":                 "Another VM got the MAC address of one of the NICs meanwhile. Leave the address out to get a free one.",
	"user_name_taken":           "A user with this name exists already. Choose another name.",
	"project_name_taken":        "A project with this name exists already. Choose another name.",
	"vm_name_taken":             "A VM with this name exists in the project already. Choose another name.",
	"pool_name_taken":           "A pool with this name exists already. Choose another name.",
	"network_name_taken":        "A network with this name exists already, or was found on a host a moment ago. Choose another name.",
	"host_name_taken":           "A host with this name has joined already. Give the new host another name.",
	"cluster_name_taken":        "A cluster with this name exists already. Choose another name.",
	"hosts_cluster_id_fkey":     "The cluster was deleted a moment ago. Choose another one.",
	"vms_host_id_fkey":          "The host was removed a moment ago. Choose another one.",
	"security_group_name_taken": "A security group with this name exists already. Choose another name.",
	"host_machine_taken":        "This machine has joined already under another name. Delete that host first.",
}

// NotFoundError maps pgx.ErrNoRows to the same error for objects that do not exist and objects that the actor may not
// see.
func NotFoundError(err error, resource string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "There is no such %s.", resource)
	}
	return UserError(err)
}

// UnknownProjectError replaces a NotFound error, such as that of a hidden project, by the common error for an unknown
// project. The error thus does not reveal whether the project exists.
func UnknownProjectError(err error) error {
	if fleet.CodeOf(err) == fleet.NotFound {
		return fleet.Errorf(fleet.NotFound, "There is no such project.")
	}
	return err
}

// CheckID returns NotFoundError for a malformed ID, without a query.
func CheckID[T ~string](id T, resource string) error {
	if !fleet.IsID(string(id)) {
		return NotFoundError(pgx.ErrNoRows, resource)
	}
	return nil
}

// RecoverAsError converts a panic into an error. Defer it in goroutines that serve no request: their panic would end
// the portal.
func RecoverAsError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}
