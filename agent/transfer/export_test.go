package transfer

import "net"

// Raw is the connection under what is sent.
func (o *Outgoing) Raw() net.Conn { return o.conn }
