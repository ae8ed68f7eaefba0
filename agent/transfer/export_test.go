package transfer

import "net"

// Raw returns the underlying connection.
func (o *Outgoing) Raw() net.Conn { return o.conn }
