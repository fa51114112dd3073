"""``hloop devices``: what a run would see, why, and who has which lease."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import typer

from hloop.cli.options import DevicesOption, JsonOption, LeaseDirOption
from hloop.cli.output import print_json
from hloop.locks import Holder

if TYPE_CHECKING:
    from hloop.devices.leases import LeaseFolder
    from hloop.devices.resolve import Device


def command(
    devices: DevicesOption = None,
    lease_dir: LeaseDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the devices that a run would have, why these, and who has which lease.

    Exit 0: there are devices. 1: there is none. 2: there is no answer.
    """
    from hloop.devices.leases import machine_id
    from hloop.run.settings import RunSettings

    given = {
        "devices": devices,
        "lease_dir": None if lease_dir is None else str(lease_dir.absolute()),
    }
    settings = RunSettings().override(given, source="the options")
    table = settings.resolve(None, os.environ)
    folder = settings.lease_folder(table, os.environ)
    machine = machine_id()
    found = {
        "source": table.source,
        "driver": table.driver,
        "lease_dir": None if folder is None else str(folder.path),
        "remark": "" if folder is None else folder.remark,
        "devices": [
            {
                **device.to_dict(),
                "memory_mib": device.memory_mib,
                "lease": None if folder is None else _lease(folder, device, machine),
            }
            for device in table.devices
        ],
    }
    if folder is not None:
        folder.close()
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(0 if table.devices else 1)


def _lease(folder: LeaseFolder, device: Device, machine: str) -> dict[str, Any]:
    """Say who has a device. ``held`` is null where that cannot be told."""
    from hloop.devices.leases import lease_key

    key = lease_key(device, machine)
    try:
        held, holder = folder.holder(key)
    except OSError as error:
        return {"key": key, "held": None, "holder": None, "problem": folder.why_not(key, error)}
    said = None if holder is None else holder.to_dict()
    return {"key": key, "held": held, "holder": said, "problem": None}


def _print(found: dict[str, Any]) -> None:
    count = len(found["devices"]) or "no"
    print(f"{count} device{'' if count == 1 else 's'}: {found['source']}")
    for device in found["devices"]:
        memory = device["memory_mib"]
        facts = [
            f"device {device['logical']}",
            "simulated" if device["simulated"] else f"entry {device['token']}",
            None if device["uuid"] == device["token"] else device["uuid"],
            device["name"],
            None if memory is None else f"{memory} MiB",
        ]
        print(f"{'  '.join(fact for fact in facts if fact)}  {_state(device['lease'])}")
    if found["lease_dir"] is not None:
        remark = f": {found['remark']}" if found["remark"] else ""
        print(f"leases: {found['lease_dir']}{remark}")


def _state(lease: dict[str, Any] | None) -> str:
    if lease is None:
        return "(without lease)"
    if lease["held"] is None:
        return f"nobody knows who has it: {lease['problem']}"
    if not lease["held"]:
        return "free"
    return f"held by {Holder(**lease['holder']) if lease['holder'] else 'another run'}"
