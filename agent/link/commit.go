package link

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"quantix/internal/fleet"
)

// Timing of a change that may cut the host off: the interval of attempts to reach the portal, and the time that the
// rollback process waits longer than the agent.
const (
	portalRetryInterval  = 500 * time.Millisecond
	rollbackMargin       = 2 * time.Second
	rollbackStartTimeout = 10 * time.Second
	lockTimeout          = 5 * time.Second
)

// changeWithRollback makes a change that may cut the host off from its portal. If the portal is not reached afterwards,
// the change is rolled back. A separate rollback process, started by Options.RollbackCommand, undoes an unconfirmed
// change even if this process dies. changeWithRollback sets the ID and the boot of c. If onPathToPortal is true, the
// portal must be reached through device, else through any device.
func (k *Devices) changeWithRollback(ctx context.Context, c unconfirmedChange, steps []step, onPathToPortal bool, device string) error {
	c.ID, c.Boot = rand.Text(), k.options.BootID
	if err := saveJSON(k.options.Dir, journalFile, c); err != nil {
		return fmt.Errorf("nothing was changed, because the agent cannot record the state before the change: %w", err)
	}
	disarm, err := k.startRollbackProcess()
	if err != nil {
		return errors.Join(fmt.Errorf("nothing was changed, because the rollback process could not be started: %w", err), removeFile(k.options.Dir, journalFile))
	}
	defer disarm()
	until := time.Now().Add(k.options.PortalTimeout)
	lock, err := lockDir(k.options.Dir, lockTimeout)
	if err != nil {
		return errors.Join(err, removeFile(k.options.Dir, journalFile))
	}
	err = k.runSteps(steps, until)
	lock.Close()
	if err != nil {
		return errors.Join(err, undoChange(k.options.Dir, k.kernel, c, true, fmt.Sprintf("The change was undone: %v", err)))
	}
	if !onPathToPortal {
		device = ""
	}
	var words string
	if err := k.waitForPortal(ctx, device, until); err != nil {
		words = fmt.Sprintf("The change was undone: the portal was not reached through %s within %s (%v). The host is as it was before. Repair the network there, then try again.", c.Network.BridgeDevice(), k.options.PortalTimeout, err)
	} else if err = k.confirm(c); err == nil {
		return nil
	} else {
		words = fmt.Sprintf("The change was undone: the portal was reached, but the confirmation could not be recorded (%v). The host is as it was before. Try again.", err)
	}
	return errors.Join(fleet.RefusalError(words), undoChange(k.options.Dir, k.kernel, c, true, words))
}

// waitForPortal tries to connect to the portal until it answers or the time is up, with a new connection for each
// attempt. device: use only this device; empty: any.
func (k *Devices) waitForPortal(ctx context.Context, device string, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	var last error
	for {
		once, stop := context.WithTimeout(ctx, 5*time.Second)
		err := k.options.ReachPortal(once, device)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(portalRetryInterval):
		}
	}
}

// confirm marks the change as confirmed. It fails if the rollback process has undone the change already.
func (k *Devices) confirm(c unconfirmedChange) error {
	lock, err := lockDir(k.options.Dir, lockTimeout)
	if err != nil {
		return err
	}
	defer lock.Close()
	var now unconfirmedChange
	found, err := loadJSON(k.options.Dir, journalFile, &now)
	if err != nil {
		return err
	}
	if !found || now.ID != c.ID {
		return errors.New("the rollback process has undone the change already")
	}
	return removeFile(k.options.Dir, journalFile)
}

// startRollbackProcess starts the rollback process and returns once the process reports that it waits. stop ends the
// process.
func (k *Devices) startRollbackProcess() (stop func(), err error) {
	cmd, err := k.options.RollbackCommand(k.options.PortalTimeout + rollbackMargin)
	if err != nil {
		return nil, err
	}
	detachProcess(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := func() {
		_ = cmd.Process.Kill() // the process may have exited already
		_ = cmd.Wait()         // the error of the kill is expected
	}
	firstLine := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		firstLine <- line
	}()
	select {
	case line := <-firstLine:
		if line == rollbackReadyLine+"\n" {
			return end, nil
		}
		end()
		return nil, fmt.Errorf("%s wrote %q instead of its ready line", filepath.Base(cmd.Path), line)
	case <-time.After(rollbackStartTimeout):
		end()
		return nil, errors.New("the process did not answer in time")
	}
}

const rollbackReadyLine = "armed"

// RollBackUnlessConfirmed waits for the given time. Then it rolls back the change recorded in the agent's directory
// unless the change was confirmed. It runs in a process of its own, which outlives the agent.
func RollBackUnlessConfirmed(ctx context.Context, dir string, after time.Duration) error {
	var c unconfirmedChange
	found, err := loadJSON(dir, journalFile, &c)
	if err != nil || !found {
		return err
	}
	fmt.Fprintln(os.Stdout, rollbackReadyLine)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
	}
	return undoChange(dir, newKernel(), c, false, "The change was undone: the agent did not confirm it in time. The host is as it was before.")
}

// undoChange rolls back a change. If byMaker is false, it skips a change that is confirmed or undone already. The maker
// of the change rolls back in any case, because it may have made steps after the rollback process ran. If the lock
// cannot be acquired in time, undoChange works without it, because restoring the host takes precedence.
func undoChange(dir string, kernel kernel, c unconfirmedChange, byMaker bool, words string) error {
	if lock, err := lockDir(dir, lockTimeout); err == nil {
		defer lock.Close()
	}
	var now unconfirmedChange
	found, err := loadJSON(dir, journalFile, &now)
	if over := err == nil && (!found || now.ID != c.ID); over && !byMaker {
		return nil
	}
	var errs []error
	for range 3 {
		if errs = runRollbackSteps(kernel, c); len(errs) == 0 {
			break
		}
	}
	if len(errs) > 0 {
		words += fmt.Sprintf(" Parts of the change could not be undone: %v", errors.Join(errs...))
	}
	return recordRollback(dir, c, words)
}

// runRollbackSteps runs as many steps of planRollback as possible, and returns the errors of the steps that failed.
func runRollbackSteps(kernel kernel, c unconfirmedChange) (errs []error) {
	p, err := kernel.read(c.Network, true)
	if err != nil {
		return []error{err}
	}
	for _, s := range planRollback(c.Network, c.Before, p) {
		if err := kernel.runStep(s); err != nil {
			errs = append(errs, stepError(s, err))
		}
	}
	return errs
}

// rollBackUnconfirmedChange rolls back an unconfirmed change that an earlier agent left.
func (k *Devices) rollBackUnconfirmedChange() error {
	var c unconfirmedChange
	found, err := loadJSON(k.options.Dir, journalFile, &c)
	if err != nil || !found {
		return err
	}
	if c.Boot != k.options.BootID { // the kernel has lost the devices of that boot
		return recordRollback(k.options.Dir, c, "The change was undone: the host restarted before the portal was reached through the new devices.")
	}
	return undoChange(k.options.Dir, k.kernel, c, false, "The change was undone: the agent ended before the portal was reached through the new devices. The host is as it was before.")
}

// RollbackCommand returns the command that runs RollBackUnlessConfirmed as a subcommand of the agent's program.
func RollbackCommand(program, dir string, after time.Duration) *exec.Cmd {
	return exec.Command(program, "agent", "rollback", "--data-dir", dir, "--after", after.String())
}
