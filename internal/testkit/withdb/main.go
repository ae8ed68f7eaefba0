// Command withdb runs another command with a private, migrated PostgreSQL. The environment variable
// QUANTIX_TEST_DATABASE_URL contains the database's URL.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"quantix/db"
	"quantix/internal/pglocal"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "withdb:", err)
		os.Exit(1)
	}
}

func run(command []string) (err error) {
	if len(command) == 0 {
		return errors.New("give the command to run")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "quantix-withdb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// PostgreSQL runs as another user, which must be able to enter the directory.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	server, err := pglocal.Start(ctx, pglocal.Options{Dir: dir, Unsafe: true, DieWithParent: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(context.WithoutCancel(ctx))) }()
	if err := db.Migrate(ctx, server.URL()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "QUANTIX_TEST_DATABASE_URL="+server.URL())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
