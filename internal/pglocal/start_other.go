//go:build !unix

package pglocal

import (
	"context"
	"errors"
)

// Server is a placeholder for operating systems without a private PostgreSQL.
type Server struct{}

func start(context.Context, Options, programSearch) (*Server, error) {
	return nil, errors.New("a private PostgreSQL is not available on this operating system; " +
		"run a PostgreSQL server and name it with --database-url, QUANTIX_DATABASE_URL or database.url")
}

func startOrReuse(ctx context.Context, o Options, find programSearch) (*Server, error) {
	return start(ctx, o, find)
}

// URL is empty, because there is no server.
func (s *Server) URL() string { return "" }

// Stop does nothing.
func (s *Server) Stop(context.Context) error { return nil }
