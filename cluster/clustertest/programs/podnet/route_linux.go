package main

import (
	"encoding/binary"
	"errors"
	"net"
	"syscall"
)

// replaceRoute makes the main table lead to dst by way of gateway, as "ip route
// replace" does (rtnetlink(7)).
func replaceRoute(dst *net.IPNet, gateway net.IP) (err error) {
	to, via := dst.IP.To4(), gateway.To4()
	if to == nil || via == nil {
		return errors.New("only IPv4 is known")
	}
	bits, _ := dst.Mask.Size()
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Close(fd)) }()
	kernel := &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}
	if err := syscall.Sendto(fd, routeMessage(to, bits, via), 0, kernel); err != nil {
		return err
	}
	b := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, b, 0)
	if err != nil {
		return err
	}
	messages, err := syscall.ParseNetlinkMessage(b[:n])
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Header.Type != syscall.NLMSG_ERROR || len(m.Data) < 4 {
			continue
		}
		if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
			return syscall.Errno(-code)
		}
	}
	return nil
}

// routeMessage is the request to replace one IPv4 route.
func routeMessage(to net.IP, bits int, via net.IP) []byte {
	b := make([]byte, syscall.NLMSG_HDRLEN)
	b = append(b, syscall.AF_INET, byte(bits), 0, 0, // family, destination's and source's length, service
		syscall.RT_TABLE_MAIN, syscall.RTPROT_BOOT, syscall.RT_SCOPE_UNIVERSE, syscall.RTN_UNICAST,
		0, 0, 0, 0) // flags
	attribute := func(kind uint16, value []byte) {
		b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, value...)
	}
	attribute(syscall.RTA_DST, to)
	attribute(syscall.RTA_GATEWAY, via)
	binary.NativeEndian.PutUint32(b[0:], uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], syscall.RTM_NEWROUTE)
	binary.NativeEndian.PutUint16(b[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_ACK|syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE)
	return b
}
