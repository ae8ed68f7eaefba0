package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migration/*.sql
var migrationFiles embed.FS

// ErrNewerSchema is returned by Migrate for a database migrated by a newer release.
var ErrNewerSchema = errors.New("the database was migrated by a newer release of Quantix")

// Migrate applies all pending migrations to the database at url. An advisory lock makes portals that start together
// migrate only once. If the schema is newer than this program, it returns ErrNewerSchema and changes nothing.
func Migrate(ctx context.Context, url string) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	cfg.ConnectTimeout = connectTimeout
	conn := stdlib.OpenDB(*cfg)
	defer func() { _ = conn.Close() }()
	if err := migrateConn(ctx, conn); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

func migrateConn(ctx context.Context, conn *sql.DB) error {
	files, err := fs.Sub(migrationFiles, "migration")
	if err != nil {
		return err
	}
	// The locker tries every second for five minutes, because another portal's migration may take that long.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, conn, files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	if err := refuseNewerSchema(ctx, conn, p); err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// refuseNewerSchema reads goose's table directly. The provider's own check would create a missing table and conflict
// with another portal doing the same.
func refuseNewerSchema(ctx context.Context, conn *sql.DB, p *goose.Provider) error {
	const undefinedTable = "42P01"
	var have int64
	err := conn.QueryRowContext(ctx, "SELECT COALESCE(max(version_id), 0) FROM "+goose.DefaultTablename).Scan(&have)
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == undefinedTable:
		return nil
	case err != nil:
		return err
	}
	sources := p.ListSources()
	if want := sources[len(sources)-1].Version; have > want {
		return fmt.Errorf("%w: the database has schema %d, but this program supports schemas up to %d; start the newer release, or restore a backup from before the migration",
			ErrNewerSchema, have, want)
	}
	return nil
}
