"""The rows, one file per kind of storage they break."""

from leadsman_faults.row import Row
from leadsman_faults.rows import devices, kernel, local, mounts, network, outages, plugin, registration, servers

ALL: tuple[Row, ...] = tuple(
    row
    for group in (
        servers.ROWS,
        network.ROWS,
        mounts.ROWS,
        plugin.ROWS,
        registration.ROWS,
        local.ROWS,
        devices.ROWS,
        kernel.ROWS,
        outages.ROWS,
    )
    for row in group.rows
)
"""Every row, in the order of the table."""
