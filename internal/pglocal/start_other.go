//go:build !unix

package pglocal

import (
	"context"
	"errors"
)

func start(context.Context, Options, search) (*Server, error) {
	return nil, errors.New("a private PostgreSQL is not available on this operating system; " +
		"run a PostgreSQL server and name it with --database-url, QUANTIX_DATABASE_URL or database.url")
}

// Stop has nothing to stop: no server can be started here.
func (s *Server) Stop(context.Context) error { return nil }
